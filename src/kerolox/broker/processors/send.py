"""Sending: a message comes in, is checked, stored, and its place answered."""

import struct
from time import perf_counter
from typing import Any

import msgspec

from kerolox.broker.admission import Admission, Sending, queue_of
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.processors.batch import Batches
from kerolox.broker.retries import Retries
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing, born_host, refusal
from kerolox.broker.system_topics import RETRY_PREFIX, TIMER_TOPIC
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions.half import TRAN_MSG_MARK, is_half, prepared
from kerolox.errors import AnswerError, NoPermission
from kerolox.message import names
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds, offset_id
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.message.record import decode
from kerolox.remoting.routes import Answering, Incoming, Later, handles
from kerolox.runtime.lanes import Lane
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.store.timer.recall import handle_of
from kerolox.wire import binary
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(names.UNIQ_KEY)
_POP_CK = mark(names.POP_CK)
_SENT = b'"queueId":"%d","TRACE_ON":"%b","MSG_REGION":%b,"transactionId":"%b","msgId":"%b","queueOffset":"%d"'
# The same in a binary header: before each value its size, in four bytes of which one is enough.
_SENT_BINARY = b"\0\5msgId\0\0\0%c%b\0\7queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b\0\x0dtransactionId\0\0\0%c%b%b"
# So many characters, four bytes each at most, are no more than one byte can count.
_UNIQUE_KEY_SIZE_MAX = 63
_LONG = struct.Struct(">q")


class SendProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        admission: Admission,
        retries: Retries,
        storing: Storing,
        ids: UniqueIds,
        lane: Lane,
        statistics: Statistics,
    ) -> None:
        self._config = config
        self._topics = topics
        self._admission = admission
        self._retries = retries
        self._batches = Batches(admission, storing, topics, lane, statistics)
        self._storing = storing
        self._ids = ids
        # Messages on their way to the log, beside requests that have a task.
        self._lane = lane
        self.statistics = statistics
        self._region = msgspec.json.encode(config.region_id)
        self._region_binary = {
            is_on: binary.encode_fields({"MSG_REGION": config.region_id, "TRACE_ON": "true" if is_on else "false"})
            for is_on in (True, False)
        }
        self._cluster = mark(names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"

    @handles(h.SendMessageV2, lane="send")
    def send_v2(self, request: Incoming[h.SendMessageV2]) -> Answering[h.Sent]:
        return self._send(request)

    @handles(h.SendMessage, lane="send")
    def send(self, request: Incoming[h.SendMessage]) -> Answering[h.Sent]:
        return self._send(request)

    @handles(h.SendBatchMessage, lane="send")
    def send_batch(self, request: Incoming[h.SendBatchMessage]) -> Answering[h.Sent]:
        return self._batches.send(request)

    def _send(self, request: Incoming[Any]) -> Answering[h.Sent]:
        header: Sending = request.header
        if header.batch:
            return self._batches.send(request)
        try:
            topic = self._topics.topics.get(header.topic)
            if topic is None or header.topic.startswith(RETRY_PREFIX):
                return self._send_slowly(request)
            return self._store(request, topic)
        except AnswerError as error:
            return self._admission.refused(error)

    async def _send_slowly(self, request: Incoming[Any]) -> Reply[h.Sent]:
        """Stores the first message of a topic, which is made for it, and those that are to be tried again."""
        header: Sending = request.header
        try:
            topic = await self._admission.topic_of(header)
            message, unique_key = self._message(request, topic)
            if header.topic.startswith(RETRY_PREFIX):
                message = await self._retries.redirected(message, request.version, header.max_reconsume_times)
            stored = self._half(message)
            draft = self._storing.draft(stored)
            began = perf_counter()
            appended, is_durable = await self._storing.put_draft(draft)
        except AnswerError as error:
            return self._admission.refused(error)
        self.statistics.put(stored.topic, 1, appended.end_offset - appended.physical_offset, perf_counter() - began)
        handle = self._recall_handle(draft)
        return self.sent(appended, message.queue_id, unique_key, is_durable=is_durable, recall_handle=handle)

    def _store(self, request: Incoming[Any], topic: TopicConfig) -> Later[h.Sent]:
        self._lane.check()
        message, unique_key = self._message(request, topic)
        stored = self._half(message)
        draft = self._storing.draft(stored)
        later: Later[h.Sent] = Later(request)
        pending = _Pending(self, self._lane, later, stored.topic, message.queue_id, unique_key)
        if draft.topic is not stored.topic:
            # It waits somewhere else until it is due.
            pending.recall_handle = self._recall_handle(draft)
        self._storing.submit(draft, pending)
        # Once it is under way; what cannot be stored was refused before.
        self._lane.under_way += 1
        return later

    def _message(self, request: Incoming[Any], topic: TopicConfig) -> tuple[Message, str]:
        """Returns the message of a request, and its unique key; AnswerError if it may not be sent."""
        header: Sending = request.header
        self._admission.check(header, topic)
        if not request.body:
            raise MessageIllegal("the message has no body")
        properties = (header.properties or "").encode("utf-8", "surrogateescape")
        if _POP_CK in properties:
            properties = remove(properties, _POP_CK)
        unique_key = find(properties, _UNIQ_KEY).decode("utf-8", "replace")
        if not unique_key:
            unique_key = self._ids.make()
            properties = join(properties, _UNIQ_KEY + unique_key.encode() + b"\x02")
        message = Message(
            topic.topic_name,
            request.body,
            join(properties, self._cluster),
            queue_of(header, topic),
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            born_host(request.origin.remote),
            0,
            self._storing.store_host,
            header.reconsume_times or 0,
        )
        return message, unique_key

    def _recall_handle(self, draft: Draft) -> str | None:
        """Returns by what a message that waits for its time can be recalled; None for any other."""
        return handle_of(decode(draft.records), self._config.broker_name) if draft.topic == TIMER_TOPIC else None

    def _half(self, message: Message) -> Message:
        """Returns what waits for its transaction instead of a message that is part of one; any other as it is."""
        if TRAN_MSG_MARK not in message.properties or not is_half(message):
            return message
        if self._config.reject_transaction_message:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden")
        return prepared(message)

    def sent_binary(self, appended: Appended, queue_id: int, unique_key: str) -> bytes:
        """Returns the fields of the answer as a binary header has them."""
        key, queue, offset = unique_key.encode(), b"%d" % queue_id, b"%d" % appended.queue_offset
        message_id = (self._storing.store_host + _LONG.pack(appended.physical_offset)).hex().upper().encode()
        return _SENT_BINARY % (
            len(message_id),
            message_id,
            len(queue),
            queue,
            len(offset),
            offset,
            len(key),
            key,
            self._region_binary[self._config.trace_on],
        )

    def sent_fields(self, appended: Appended, queue_id: int, unique_key: str) -> bytes:
        """Returns the same as JSON has them."""
        return _SENT % (
            queue_id,
            b"true" if self._config.trace_on else b"false",
            self._region,
            unique_key.encode(),
            (self._storing.store_host + _LONG.pack(appended.physical_offset)).hex().upper().encode(),
            appended.queue_offset,
        )

    def sent(
        self,
        appended: Appended,
        queue_id: int,
        unique_key: str,
        *,
        is_durable: bool,
        recall_handle: str | None = None,
    ) -> Reply[h.Sent]:
        """Returns the answer that says where a message came to lie."""
        return self._admission.sent(
            offset_id(self._storing.store_host, appended.physical_offset),
            queue_id,
            appended.queue_offset,
            unique_key,
            is_durable=is_durable,
            recall_handle=recall_handle,
        )

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))


class _Pending:
    """A request whose message is on its way to the log."""

    __slots__ = ("_began", "_lane", "_later", "_processor", "_queue_id", "_topic", "_unique_key", "recall_handle")

    def __init__(
        self, processor: SendProcessor, lane: Lane, later: Later[h.Sent], topic: str, queue_id: int, unique_key: str
    ) -> None:
        self._began = perf_counter()
        self._processor = processor
        self._lane = lane
        self._later = later
        self._topic = topic
        self._queue_id = queue_id
        self._unique_key = unique_key
        self.recall_handle: str | None = None

    def stored(self, appended: Appended, is_durable: bool) -> None:
        self._lane.under_way -= 1
        size = appended.end_offset - appended.physical_offset
        self._processor.statistics.put(self._topic, 1, size, perf_counter() - self._began)
        if is_durable and self.recall_handle is None and _is_plain(self._unique_key):
            # Most answers by far; what they say needs no escaping.
            write = self._processor.sent_binary if self._later.is_binary else self._processor.sent_fields
            self._later.answer_with(write(appended, self._queue_id, self._unique_key))
            return
        self._later.answer(
            self._processor.sent(
                appended,
                self._queue_id,
                self._unique_key,
                is_durable=is_durable,
                recall_handle=self.recall_handle,
            )
        )

    def refused(self, error: Exception) -> None:
        self._lane.under_way -= 1
        self._later.answer(self._processor.refused(error))


def _is_plain(unique_key: str) -> bool:
    """Whether it can be put into an answer as it is, and its size into one byte."""
    return unique_key.isalnum() and len(unique_key) <= _UNIQUE_KEY_SIZE_MAX
