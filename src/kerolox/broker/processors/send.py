"""Sending: a message comes in, is checked, stored, and its place answered."""

from time import perf_counter
from typing import Any, cast

from kerolox.broker.admission import Admission, Sending, queue_of
from kerolox.broker.alike_sends import AlikeSends
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.plain_sends import PlainSends
from kerolox.broker.processors.batch import Batches
from kerolox.broker.retries import Retries
from kerolox.broker.sent import SentAnswers, is_plain
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
from kerolox.message.properties import join, mark, outline, pick, remove
from kerolox.message.record import check_properties, decode
from kerolox.remoting.routes import Answering, Incoming, Later, handles
from kerolox.runtime.lanes import Lane
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.store.timer.recall import handle_of
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(names.UNIQ_KEY)
_POP_CK = mark(names.POP_CK)
# How names begin, as the outline of properties has them.
_POP, _TRAN = _POP_CK[:4], TRAN_MSG_MARK[:4]


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
        self._batches = Batches(config, admission, storing, topics, lane, statistics)
        self._storing = storing
        self._drafts = storing.drafts
        self._submit = storing.store.submit
        self._plain = PlainSends(config, topics, admission, storing, lane, statistics)
        self.take = self._plain.take
        self.sift = AlikeSends(self._plain, storing).sift
        self._ids = ids
        # Messages on their way to the log, beside requests that have a task.
        self.lane = lane
        self.statistics = statistics
        self.answers = SentAnswers(config, storing)
        self._cluster = mark(names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"

    @handles(h.SendMessageV2, lane="send", take="take")
    def send_v2(self, request: Incoming[h.SendMessageV2]) -> Answering[h.Sent]:
        # What came before it is stored before it.
        self._plain.submit()
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

    @handles(h.SendMessage, lane="send", take="take")
    def send(self, request: Incoming[h.SendMessage]) -> Answering[h.Sent]:
        return self.send_v2(cast("Incoming[h.SendMessageV2]", request))

    @handles(h.SendBatchMessage, lane="send")
    def send_batch(self, request: Incoming[h.SendBatchMessage]) -> Answering[h.Sent]:
        self._plain.submit()
        return self._batches.send(request)

    async def _send_slowly(self, request: Incoming[Any]) -> Reply[h.Sent]:
        """Stores the first message of a topic, which is made for it, and those that are to be tried again."""
        header: Sending = request.header
        try:
            topic = await self._admission.topic_of(header)
            message, unique_key, _ = self._message(request, topic)
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
        lane = self.lane
        if lane.under_way >= lane.capacity:
            lane.check()
        message, unique_key, outlined = self._message(request, topic)
        stored = self._half(message) if _TRAN in outlined else message
        # What was added to the properties of a half message is of no concern here.
        draft = self._drafts.outlined(stored, outlined)
        pending = _Pending(self, request, stored.topic, message.queue_id, unique_key)
        if draft.topic is not stored.topic:
            # It waits somewhere else until it is due.
            pending.recall_handle = self._recall_handle(draft)
        self._submit(draft, pending)
        # Once it is under way; what cannot be stored was refused before.
        lane.under_way += 1
        return pending

    def _message(self, request: Incoming[Any], topic: TopicConfig) -> tuple[Message, bytes, dict[bytes, bytes]]:
        """Returns a message, its unique key and the outline of its properties; AnswerError if it may not be sent."""
        header: Sending = request.header
        self._admission.check(header, topic)
        if not request.body:
            raise MessageIllegal("the message has no body")
        properties = header.properties.encode("utf-8", "surrogateescape") if header.properties else b""
        check_properties(properties)
        outlined = outline(properties)
        if _POP in outlined:
            properties = remove(properties, _POP_CK)
            outlined = outline(properties)
        unique_key = pick(outlined, properties, _UNIQ_KEY)
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
            self._storing.store_host,
            header.reconsume_times or 0,
        )
        return message, unique_key, outlined

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

    def sent(
        self,
        appended: Appended,
        queue_id: int,
        unique_key: bytes,
        *,
        is_durable: bool,
        recall_handle: str | None = None,
    ) -> Reply[h.Sent]:
        """Returns the answer that says where a message came to lie."""
        return self._admission.sent(
            offset_id(self._storing.store_host, appended.physical_offset),
            queue_id,
            appended.queue_offset,
            unique_key.decode("utf-8", "replace"),
            is_durable=is_durable,
            recall_handle=recall_handle,
        )

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))


class _Pending(Later[h.Sent]):
    """A request whose message is on its way to the log."""

    __slots__ = ("_began", "_processor", "_queue_id", "_topic", "_unique_key", "recall_handle")

    def __init__(
        self, processor: SendProcessor, request: Incoming[Any], topic: str, queue_id: int, unique_key: bytes
    ) -> None:
        self.request = request
        self._began = perf_counter()
        self._processor = processor
        self._topic = topic
        self._queue_id = queue_id
        self._unique_key = unique_key
        self.recall_handle: str | None = None

    def stored(self, appended: Appended, is_durable: bool) -> None:
        processor, request = self._processor, self.request
        processor.lane.under_way -= 1
        size = appended.end_offset - appended.physical_offset
        processor.statistics.put(self._topic, 1, size, perf_counter() - self._began)
        if is_durable and self.recall_handle is None and is_plain(self._unique_key):
            if not request.flag & ONEWAY_BIT:
                place = self._queue_id, appended.physical_offset, appended.queue_offset
                request.origin.send(processor.answers.write(request, place, self._unique_key))
            return
        self.answer(
            processor.sent(
                appended,
                self._queue_id,
                self._unique_key,
                is_durable=is_durable,
                recall_handle=self.recall_handle,
            )
        )

    def refused(self, error: Exception) -> None:
        self._processor.lane.under_way -= 1
        self.answer(self._processor.refused(error))
