"""Automatic batching: collects messages that are sent at about the same time into one batch (ProduceAccumulator)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from kerolox.client.messages import Message, SendResult
from kerolox.client.producer.encoding import BatchPart, is_delayed
from kerolox.client.producer.queue_selection import Selector
from kerolox.message.records.batch import PART_SIZE_MIN

SendBatch = Callable[[list[Message], list[BatchPart], Selector | None], Coroutine[Any, Any, SendResult]]


class _Key(NamedTuple):
    topic: str
    is_awaited: bool
    # Messages with different order keys may go to different queues, so they need different batches.
    order_key: object


class _Batch:
    __slots__ = ("futures", "messages", "parts", "selector", "size", "timer")

    def __init__(self, selector: Selector | None) -> None:
        self.messages: list[Message] = []
        self.parts: list[BatchPart] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.selector = selector
        self.size = 0
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None


class Accumulator:
    """Sends a batch when it is full, or `linger_seconds` after its first message.

    With `linger_seconds=0`, the messages of one iteration of the event loop form a batch.
    """

    def __init__(self, send: SendBatch, *, linger_seconds: float, size_max: int, count_max: int) -> None:
        self._send = send
        self._linger_seconds = linger_seconds
        self._size_max = size_max
        self._count_max = count_max
        self._loop = asyncio.get_running_loop()
        self._batches: dict[_Key, _Batch] = {}
        self._in_flight: set[asyncio.Task[None]] = set()

    @staticmethod
    def accepts(message: Message) -> bool:
        """Whether brokers accept the message in a batch."""
        return not is_delayed(message) and not message.topic.startswith("%")

    def add(
        self, message: Message, part: BatchPart, selector: Selector | None, order_key: object
    ) -> asyncio.Future[SendResult]:
        """Return a future with the result of this message alone."""
        key = _Key(message.topic, message.is_awaited, order_key)
        batch = self._batches.get(key)
        if batch is None:
            batch = self._batches[key] = _Batch(selector)
            if self._linger_seconds > 0:
                batch.timer = self._loop.call_later(self._linger_seconds, self._flush, key)
            else:
                batch.timer = self._loop.call_soon(self._flush, key)
        future: asyncio.Future[SendResult] = self._loop.create_future()
        batch.messages.append(message)
        batch.parts.append(part)
        batch.futures.append(future)
        batch.size += PART_SIZE_MIN + len(part.part.body) + len(part.part.properties)
        if batch.size >= self._size_max or len(batch.messages) >= self._count_max:
            self._flush(key)
        return future

    async def flush(self) -> None:
        """Send the collected messages, and wait until all batches have been acknowledged or have failed."""
        for key in list(self._batches):
            self._flush(key)
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def _flush(self, key: _Key) -> None:
        batch = self._batches.pop(key, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        task = self._loop.create_task(self._send_and_resolve(batch), name="batch")
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _send_and_resolve(self, batch: _Batch) -> None:
        try:
            result = await self._send(batch.messages, batch.parts, batch.selector)
        except asyncio.CancelledError:
            for future in batch.futures:
                future.cancel()
            raise
        except Exception as error:
            for future in batch.futures:
                if not future.done():
                    future.set_exception(error)
                    # Mark it as retrieved: the sender may have been cancelled.
                    future.exception()
            return
        results = [result] if len(batch.futures) == 1 else split_result(result)
        for future, own_result in zip(batch.futures, results, strict=True):
            if not future.done():
                future.set_result(own_result)


def split_result(result: SendResult) -> list[SendResult]:
    """Return one result per message of a batch."""
    offset_ids = result.offset_ids
    message_ids = result.message_ids
    if len(offset_ids) != len(message_ids):
        # A batch consume queue topic stores the batch as one record, with one offset id.
        offset_ids = [result.offset_id] * len(message_ids)
    return [
        SendResult(
            result.status,
            message_id,
            offset_id,
            result.queue,
            result.queue_offset + index,
            result.transaction_id,
            result.recall_handle,
            result.region_id,
            result.is_traced,
        )
        for index, (message_id, offset_id) in enumerate(zip(message_ids, offset_ids, strict=True))
    ]
