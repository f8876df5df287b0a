"""SEND_MESSAGE: checks a message, stores it and responds with its position (SendMessageProcessor)."""

from time import perf_counter
from typing import Any, cast

from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.admission import Admission, Sending, queue_of
from kerolox.broker.send.batch import BatchSends
from kerolox.broker.send.collector import SendCollector
from kerolox.broker.send.put import born_host, refusal
from kerolox.broker.send.responses import SendResponses, is_plain
from kerolox.broker.send.retry_topics import RetryTopics
from kerolox.broker.tables.system_topics import RETRY_PREFIX, TIMER_TOPIC
from kerolox.broker.transactions.half_queue import TRAN_MSG_MARK, is_half, prepared
from kerolox.errors import AnswerError, NoPermission
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds, offset_id
from kerolox.message.message import Message
from kerolox.message.properties import by_initials, find_by_initials, join, mark, remove
from kerolox.message.records.record import check_properties, decode
from kerolox.remoting.router import Answering, Incoming, Later, handles
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.timer.recall import handle_of
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(property_names.UNIQ_KEY)
_POP_CK = mark(property_names.POP_CK)
# The initials of property names by which `by_initials` finds them.
_POP, _TRAN = _POP_CK[:4], TRAN_MSG_MARK[:4]


class SendMessageProcessor:
    """Handles sends one by one. Many in one loop iteration are stored together by the collector, which takes all."""

    def __init__(self, parts: BrokerParts, admission: Admission, retries: RetryTopics, ids: UniqueIds) -> None:
        config = parts.config
        self._config = config
        self._topics = parts.topics
        self._admission = admission
        self._retries = retries
        self._batches = BatchSends(parts, admission)
        self._message_put = parts.message_put
        self._encoder = parts.message_put.encoder
        self._submit = parts.store.submit
        self._collector = SendCollector(parts, admission)
        self.take = self._collector.take
        self.collect = self._collector.collect
        self._ids = ids
        # Messages that are being stored count here, beside requests that have a task.
        self.request_queue = parts.request_queues["send"]
        self.statistics = parts.statistics
        self.answers = SendResponses(config, parts.message_put)
        self._cluster = mark(property_names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"

    @handles(h.SendMessageV2, request_queue="send", take="take")
    def send_v2(self, request: Incoming[h.SendMessageV2]) -> Answering[h.Sent]:
        header = request.header
        if header.batch:
            return self._batches.send(request)
        try:
            topic = self._topics.topics.get(header.topic)
            if topic is None or header.topic.startswith(RETRY_PREFIX):
                return self._send_slowly(request)
            return self._store(request, topic)
        except (AnswerError, StoreError) as error:
            return self.refused(error)

    @handles(h.SendMessage, request_queue="send", take="take")
    def send(self, request: Incoming[h.SendMessage]) -> Answering[h.Sent]:
        return self.send_v2(cast("Incoming[h.SendMessageV2]", request))

    @handles(h.SendBatchMessage, request_queue="send", take="take")
    def send_batch(self, request: Incoming[h.SendBatchMessage]) -> Answering[h.Sent]:
        return self._batches.send(request)

    async def _send_slowly(self, request: Incoming[Any]) -> Reply[h.Sent]:
        """Store a message whose topic must be created first, or that is sent to a retry topic."""
        header: Sending = request.header
        try:
            topic = await self._admission.topic_of(header)
            message, unique_key, _ = self._message(request, topic)
            if header.topic.startswith(RETRY_PREFIX):
                message = await self._retries.redirected(message, request.version, header.max_reconsume_times)
            stored = self._half(message)
            draft = self._message_put.draft(stored)
            began = perf_counter()
            appended, status = await self._message_put.put_draft(draft)
        except AnswerError as error:
            return self._admission.refused(error)
        self.statistics.put(stored.topic, 1, appended.end_offset - appended.physical_offset, perf_counter() - began)
        handle = self._recall_handle(draft)
        return self.sent(appended, message.queue_id, unique_key, status=status, recall_handle=handle)

    def _store(self, request: Incoming[Any], topic: TopicConfig) -> Later[h.Sent]:
        request_queue = self.request_queue
        if request_queue.under_way >= request_queue.capacity:
            request_queue.check()
        message, unique_key, outlined = self._message(request, topic)
        stored = self._half(message) if _TRAN in outlined else message
        # The properties that `_half` adds matter neither for delays nor for the index.
        draft = self._encoder.encode_outlined(stored, outlined)
        pending = _Pending(self, request, stored.topic, message.queue_id, unique_key)
        if draft.topic is not stored.topic:
            # A delayed message is stored in another topic until it is due.
            pending.recall_handle = self._recall_handle(draft)
        self._submit(draft, pending)
        # Counted only now: a message that cannot be stored was refused above.
        request_queue.under_way += 1
        return pending

    def _message(self, request: Incoming[Any], topic: TopicConfig) -> tuple[Message, bytes, dict[bytes, bytes]]:
        """Return the message, its unique key and its properties by initials; AnswerError if it may not be sent."""
        header: Sending = request.header
        self._admission.check(header, topic)
        if not request.body:
            raise MessageIllegal("the message has no body")
        properties = header.properties.encode("utf-8", "surrogateescape") if header.properties else b""
        check_properties(properties)
        outlined = by_initials(properties)
        if _POP in outlined:
            properties = remove(properties, _POP_CK)
            outlined = by_initials(properties)
        unique_key = find_by_initials(outlined, properties, _UNIQ_KEY)
        if not unique_key:
            unique_key = self._ids.make().encode()
            part = outlined[_UNIQ_KEY[:4]] = _UNIQ_KEY + unique_key
            properties = join(properties, part + b"\x02")
        message = Message(
            topic.topic_name,
            request.body,
            properties + self._cluster if properties[-1] == 2 else join(properties, self._cluster),
            header.queue_id if header.queue_id >= 0 else queue_of(header, topic),
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            born_host(request.origin.remote),
            0,
            self._message_put.store_host,
            header.reconsume_times or 0,
        )
        return message, unique_key, outlined

    def _recall_handle(self, draft: Append) -> str | None:
        """Return the recall handle of a timer message; None for any other."""
        return handle_of(decode(draft.records), self._config.broker_name) if draft.topic == TIMER_TOPIC else None

    def _half(self, message: Message) -> Message:
        """Return the half message of a transactional message; any other message unchanged."""
        if TRAN_MSG_MARK not in message.properties or not is_half(message):
            return message
        if self._config.reject_transaction_message:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden")
        return prepared(message)

    def sent(
        self,
        appended: Appended,
        queue_id: int,
        unique_key: bytes,
        *,
        status: AckStatus,
        recall_handle: str | None = None,
    ) -> Reply[h.Sent]:
        """Return the response with the position of a stored message."""
        return self._admission.sent(
            offset_id(self._message_put.store_host, appended.physical_offset),
            queue_id,
            appended.queue_offset,
            unique_key.decode("utf-8", "replace"),
            status=status,
            recall_handle=recall_handle,
        )

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))


class _Pending(Later[h.Sent]):
    """The sender of a message that is being stored."""

    __slots__ = ("_began", "_processor", "_queue_id", "_topic", "_unique_key", "recall_handle")

    def __init__(
        self, processor: SendMessageProcessor, request: Incoming[Any], topic: str, queue_id: int, unique_key: bytes
    ) -> None:
        self.request = request
        self._began = perf_counter()
        self._processor = processor
        self._topic = topic
        self._queue_id = queue_id
        self._unique_key = unique_key
        self.recall_handle: str | None = None

    def stored(self, appended: Appended, status: AckStatus) -> None:
        processor, request = self._processor, self.request
        processor.request_queue.under_way -= 1
        size = appended.end_offset - appended.physical_offset
        processor.statistics.put(self._topic, 1, size, perf_counter() - self._began)
        if status is AckStatus.OK and self.recall_handle is None and is_plain(self._unique_key):
            if not request.flag & ONEWAY_BIT:
                place = self._queue_id, appended.physical_offset, appended.queue_offset
                # The store flushes it with its callback.
                frame = processor.answers.write(request, place, self._unique_key)
                request.origin.send_all((frame,), is_flushed=True)
            return
        self.answer(
            processor.sent(
                appended,
                self._queue_id,
                self._unique_key,
                status=status,
                recall_handle=self.recall_handle,
            )
        )

    def refused(self, error: Exception) -> None:
        self._processor.request_queue.under_way -= 1
        self.answer(self._processor.refused(error))
