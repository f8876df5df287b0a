"""Batches: several messages for one queue in one request (SEND_BATCH_MESSAGE)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.admission import Admission, Sending, queue_of
from kerolox.broker.send.batch_responses import offset_ids, write
from kerolox.broker.send.put import born_host, refusal
from kerolox.broker.send.responses import is_plain
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import AnswerError
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import find, mark
from kerolox.message.records import batch
from kerolox.message.records.record import TOPIC_SIZE_MAX
from kerolox.remoting.router import Answering, Incoming, Later
from kerolox.runtime.request_queue import RequestQueue
from kerolox.runtime.threads import in_thread
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreBusy, WaitedTooLong
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(property_names.UNIQ_KEY)
# Longer batches are decoded in a thread, one at a time: they may hold tens of thousands of messages.
_SHORT_MAX = 1024


class BatchSends:
    """Stores all messages of a batch, contiguously, or none."""

    def __init__(self, parts: BrokerParts, admission: Admission) -> None:
        self._config = parts.config
        self._admission = admission
        self._message_put = parts.message_put
        self._topics = parts.topics
        self._request_queue = parts.request_queues["send"]
        self._statistics = parts.statistics
        self._long = _LongBatches(parts.store.config)

    def send(self, request: Incoming[Any]) -> Answering[h.Sent]:
        topic = self._topics.topics.get(request.header.topic)
        if topic is None or not batch.has_at_most(request.body, _SHORT_MAX):
            return self._send_slowly(request)
        try:
            self._request_queue.check()
            self._admission.check(request.header, topic)
            shared = self._shared(request, topic)
            draft = self._draft(shared, request.body)
            later: Later[h.Sent] = Later(request)
            self._message_put.submit(draft, _Pending(self, self._request_queue, later, shared, draft))
        except AnswerError as error:
            return self._admission.refused(error)
        self._request_queue.under_way += 1
        return later

    async def _send_slowly(self, request: Incoming[Any]) -> Reply[h.Sent]:
        try:
            topic = await self._admission.topic_of(request.header)
            shared = self._shared(request, topic)
            if batch.has_at_most(request.body, _SHORT_MAX):
                draft = self._draft(shared, request.body)
                began = perf_counter()
                appended, status = await self._message_put.put_draft(draft)
            else:
                async with self._long.turn(len(request.body)):
                    draft = await in_thread(self._draft, shared, request.body)
                    began = perf_counter()
                    appended, status = await self._message_put.put_draft(draft)
        except AnswerError as error:
            return self._admission.refused(error)
        self.count(appended, shared, draft, perf_counter() - began)
        return self.sent(appended, shared, draft, status)

    def count(self, appended: Appended, shared: Message, draft: Append, seconds: float) -> None:
        size = appended.end_offset - appended.physical_offset
        self._statistics.put(shared.topic, len(draft.starts), size, seconds)

    def _shared(self, request: Incoming[Any], topic: TopicConfig) -> Message:
        """Return the fields that all messages of a batch share; MessageIllegal if the topic allows no batch."""
        header: Sending = request.header
        if len(header.topic) > TOPIC_SIZE_MAX:
            raise MessageIllegal(f"message topic length too long {len(header.topic)}")
        if header.topic.startswith(RETRY_PREFIX):
            raise MessageIllegal(f"batch request does not support retry group {header.topic}")
        return Message(
            topic.topic_name,
            b"",
            (header.properties or "").encode("utf-8", "surrogateescape"),
            queue_of(header, topic),
            0,
            header.sys_flag,
            header.born_timestamp,
            born_host(request.origin.remote),
            0,
            self._message_put.store_host,
            header.reconsume_times or 0,
        )

    def _draft(self, shared: Message, body: bytes) -> Append:
        try:
            return self._message_put.encoder.encode_batch(shared, body)
        except Exception as error:
            raise refusal(error) from error

    def sent(self, appended: Appended, shared: Message, draft: Append, status: AckStatus) -> Reply[h.Sent]:
        """Return the response with the offset id of each message."""
        ids = offset_ids(self._message_put.store_host, appended.physical_offset, draft.starts)
        unique_key = find(shared.properties, _UNIQ_KEY).decode("utf-8", "replace") or None
        return self._admission.sent(ids, shared.queue_id, appended.queue_offset, unique_key, status=status)

    def answer(self, request: Incoming[Any], appended: Appended, shared: Message, draft: Append) -> None:
        """Queues the response to a batch that is stored; the store flushes it with its callback."""
        unique_key = find(shared.properties, _UNIQ_KEY)
        if unique_key and not is_plain(unique_key):
            Later[h.Sent](request).answer(self.sent(appended, shared, draft, AckStatus.OK))
        elif not request.flag & ONEWAY_BIT:
            ids = offset_ids(self._message_put.store_host, appended.physical_offset, draft.starts)
            place = shared.queue_id, appended.queue_offset
            region, is_traced = self._config.region_id, self._config.trace_on
            frame = write(request.serialization, request.opaque, ids, place, unique_key, region, is_traced)
            request.origin.send_all((frame,), is_flushed=True)

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))


class _LongBatches:
    """Serializes long batches: the next one starts when the one before is stored or refused.

    A decoded batch takes many times its bytes of memory, and dispatching it holds the event loop.
    """

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._turn = asyncio.Lock()
        # The number and size of batches in progress or waiting.
        self._count = self._size = 0

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for the turn of a batch of `size` bytes; SystemBusy if too many bytes wait, or for too long."""
        bound = self._config.put_bytes_pending_max
        if self._size and self._size + size > bound:
            waiting = f"{self._size} bytes of long batches wait to be stored"
            raise refusal(StoreBusy(f"{waiting}, at most {bound} allowed"))
        self._count += 1
        self._size += size
        try:
            await self._wait()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._count -= 1
            self._size -= size

    async def _wait(self) -> None:
        patience_millis = self._config.sync_flush_timeout
        try:
            async with asyncio.timeout(patience_millis / 1000):
                await self._turn.acquire()
        except TimeoutError as error:
            raise refusal(WaitedTooLong(patience_millis, self._count)) from error


class _Pending:
    """The sender of a batch that is being stored."""

    __slots__ = ("_batches", "_began", "_draft", "_later", "_request_queue", "_shared")

    def __init__(
        self, batches: BatchSends, request_queue: RequestQueue, later: Later[h.Sent], shared: Message, draft: Append
    ) -> None:
        self._began = perf_counter()
        self._batches = batches
        self._request_queue = request_queue
        self._later = later
        self._shared = shared
        self._draft = draft

    def stored(self, appended: Appended, status: AckStatus) -> None:
        self._request_queue.under_way -= 1
        self._batches.count(appended, self._shared, self._draft, perf_counter() - self._began)
        if status is AckStatus.OK:
            self._batches.answer(self._later.request, appended, self._shared, self._draft)
        else:
            self._later.answer(self._batches.sent(appended, self._shared, self._draft, status))

    def refused(self, error: Exception) -> None:
        self._request_queue.under_way -= 1
        self._later.answer(self._batches.refused(error))
