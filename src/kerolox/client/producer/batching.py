"""Automatic batching: messages that are sent within a moment of each other travel together."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from kerolox.client.messages import Message, SendResult
from kerolox.client.producer.outgoing import BatchPart, is_delayed
from kerolox.client.producer.queue_choice import Selector
from kerolox.message.batch import PART_SIZE_MIN

SendBatch = Callable[[list[Message], list[BatchPart], Selector | None], Coroutine[Any, Any, SendResult]]


class _Key(NamedTuple):
    topic: str
    is_awaited: bool
    # Messages that are to stay together, or None.
    order: object


class _Batch:
    __slots__ = ("futures", "messages", "parts", "selector", "size", "timer")

    def __init__(self, selector: Selector | None) -> None:
        self.messages: list[Message] = []
        self.parts: list[BatchPart] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.selector = selector
        self.size = 0
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None


class Batching:
    """Collects until a batch is full, or the first of it has waited for as long as it may.

    Without any waiting, what was sent in one turn of the event loop makes a batch.
    """

    def __init__(self, send: SendBatch, *, linger_seconds: float, size_max: int, count_max: int) -> None:
        self._send = send
        self._linger_seconds = linger_seconds
        self._size_max = size_max
        self._count_max = count_max
        self._loop = asyncio.get_running_loop()
        self._batches: dict[_Key, _Batch] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    @staticmethod
    def takes(message: Message) -> bool:
        """Whether a message may travel in a batch."""
        return not is_delayed(message) and not message.topic.startswith("%")

    def add(
        self, message: Message, part: BatchPart, selector: Selector | None, order: object
    ) -> asyncio.Future[SendResult]:
        """Returns what will be the result of this message alone."""
        key = _Key(message.topic, message.is_awaited, order)
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
        """Sends what is waiting, and returns when all of it has been answered."""
        for key in list(self._batches):
            self._flush(key)
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _flush(self, key: _Key) -> None:
        batch = self._batches.pop(key, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        task = self._loop.create_task(self._carry(batch), name="batch")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _carry(self, batch: _Batch) -> None:
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
                    # Whoever sent it may have left.
                    future.exception()
            return
        if len(batch.futures) == 1:
            results = [result]
        else:
            results = parted(result)
        for future, own in zip(batch.futures, results, strict=True):
            if not future.done():
                future.set_result(own)


def parted(result: SendResult) -> list[SendResult]:
    """Returns the results of the messages of a batch, each for itself."""
    offset_ids = result.offset_ids
    message_ids = result.message_ids
    if len(offset_ids) != len(message_ids):
        # Topics that keep a batch as one record have one place for all of it.
        offset_ids = [result.offset_id] * len(message_ids)
    return [
        SendResult(
            result.status,
            message_id,
            offset_id,
            result.queue,
            result.queue_offset + number,
            result.transaction_id,
            result.recall_handle,
            result.region_id,
            result.is_traced,
        )
        for number, (message_id, offset_id) in enumerate(zip(message_ids, offset_ids, strict=True))
    ]
