"""Collects plain sends (no delay, transaction, batch or order) and stores those of one loop iteration at once.

Each send is checked when it arrives. At the end of the loop iteration the records are encoded, appended, counted and
answered together, which costs half as much as one by one.
"""

import asyncio
from collections.abc import Callable, Sequence
from operator import sub
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeVar

from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.admission import Admission, Sending
from kerolox.broker.send.put import MessagePut, born_host, refusal
from kerolox.broker.send.responses import UNIQUE_KEY_SIZE_MAX, Place, SendResponses, places_of
from kerolox.broker.tables.system_topics import NOT_FOR_PRODUCERS, RETRY_PREFIX
from kerolox.message import property_names, sysflag
from kerolox.message.hosts import NO_HOST
from kerolox.message.ids import offset_id
from kerolox.message.plain_properties import FoundProperties
from kerolox.message.properties import mark
from kerolox.message.records.record import PROPERTIES_SIZE_MAX, Row
from kerolox.remoting.router import Incoming, Later
from kerolox.runtime.event_loop import at_end_of_turn
from kerolox.store.log.commit_log import Append, Appended
from kerolox.wire.frames import Frame
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

# Transactional messages and inner batches are not plain.
_UNUSUAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH
# An upper bound on the record size beside body and properties.
_REST_SIZE_MAX = 512
# At most this many bytes form one append: an append never spans two files of the log.
_RUN_SIZE_MAX = 256 * 1024
# From this many messages per loop iteration on, reading headers as columns pays.
FEW = 16

T = TypeVar("T")


class SendCollector:
    def __init__(self, parts: BrokerParts, admission: Admission) -> None:
        config, message_put = parts.config, parts.message_put
        self._config = config
        self._topics = parts.topics.topics
        self._admission = admission
        self._message_put = message_put
        self.request_queue = parts.request_queues["send"]
        self._read = message_put.encoder.properties.read
        self._body_size_max = message_put.encoder.body_size_max
        self._cluster = mark(property_names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"
        self._properties_size_max = PROPERTIES_SIZE_MAX - len(self._cluster) - 1
        # A message that fits into no file of the log would have all others of its append refused.
        self._size_max = message_put.store.log.append_size_max - len(self._cluster) - _REST_SIZE_MAX
        self._loop: asyncio.AbstractEventLoop | None = None
        # The topics of this loop iteration; None for a topic whose messages are not plain.
        self._usual: dict[str, Usual | None] = {}
        # The messages of this loop iteration.
        self._run = Run(self)
        # The connection of the last message, and its packed address.
        self._origin: Any = None
        self._born_host = NO_HOST
        self.statistics = parts.statistics
        self.answers = SendResponses(config, message_put)
        # Whether the last loop iteration brought at least FEW messages.
        self.is_busy = False
        # A frame that a template may be learnt from, and the function that learns it if the request is taken.
        self.candidate: Frame | None = None
        self.learn: Callable[[Frame, Incoming[Any], FoundProperties], None] = lambda frame, request, found: None

    def take(self, request: Incoming[Any]) -> bool:
        """Take a plain send, which is stored with the others of this loop iteration; False if it is not plain."""
        header: Sending = request.header
        topic = header.topic
        usual = self._usual.get(topic)
        if usual is None and topic not in self._usual:
            usual = self._look_up(topic)
        queue_id, body, properties = header.queue_id, request.body, header.properties
        if (
            usual is None
            or not 0 <= queue_id < usual.queue_count
            or not 0 < len(body) <= self._body_size_max
            or not properties
            or header.batch
            or header.sys_flag & _UNUSUAL
        ):
            return False
        data = properties.encode("utf-8", "surrogateescape")
        fits = len(data) <= self._properties_size_max and len(body) + len(data) <= self._size_max
        read = self._read(data) if fits else None
        request_queue = self.request_queue
        if read is None or request_queue.under_way >= request_queue.capacity:
            return False
        unique_key = read[0]
        if not unique_key.isalnum() or len(unique_key) > UNIQUE_KEY_SIZE_MAX:
            return False
        if request.origin is not self._origin:
            # Messages of one read follow each other, so the address is looked up once.
            self._origin, self._born_host = request.origin, born_host(request.origin.remote)
        if self.candidate is not None:
            candidate, self.candidate = self.candidate, None
            self.learn(candidate, request, read)
        request_queue.under_way += 1
        run = self._run
        run.requests.append(request)
        run.found.append(read)
        run.rows.append(
            (
                (usual.topic, queue_id),
                header.flag,
                header.sys_flag,
                header.born_timestamp,
                self._born_host,
                header.reconsume_times or 0,
                body,
                data + self._cluster if data[-1] == 2 else data + b"\x02" + self._cluster,
            )
        )
        return True

    def _look_up(self, name: str) -> "Usual | None":
        """Return what `usual` does, for the first message of a topic in this loop iteration."""
        if not self._usual:
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._end)
            self._run.began = perf_counter_ns()
        usual = self._usual[name] = self.usual(name)
        return usual

    def usual(self, name: str) -> "Usual | None":
        """Return the name and queue count of a topic with plain messages; None for any other."""
        topic, config = self._topics.get(name), self._config
        is_usual = (
            topic is not None
            and not topic.order
            and not config.start_accept_send_request_time_stamp
            and name not in NOT_FOR_PRODUCERS
            and not name.startswith(RETRY_PREFIX)
        )
        if topic is None or not is_usual:
            return None
        return Usual(topic.topic_name, max(topic.write_queue_nums, topic.read_queue_nums))

    def fits(self, body_size_min: int, body_size_max: int, properties_size: int, count: int) -> bool:
        """Whether `count` messages with bodies and properties of these sizes can be taken."""
        return (
            body_size_min > 0
            and body_size_max <= self._body_size_max
            and properties_size <= self._properties_size_max
            and body_size_max + properties_size <= self._size_max
            and self.request_queue.under_way + count <= self.request_queue.capacity
        )

    def closed(self, properties: bytes) -> bytes:
        """Return the properties after the unique key, with those that the broker adds."""
        return properties + (self._cluster if properties.endswith(b"\x02") else b"\x02" + self._cluster)

    def _end(self) -> None:
        self._usual, self._origin, self.candidate = {}, None, None
        self.is_busy = len(self._run.requests) >= FEW
        self.submit()

    def submit(self) -> None:
        """Store the collected sends now, so that log order equals arrival order for what follows."""
        run = self._run
        if run.requests:
            # The submitted run keeps its lists; later messages go to a new one.
            self._run = Run(self)
            run.submit(self._message_put)

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))

    def not_durable(self, place: Place, unique_key: bytes) -> Reply[h.Sent]:
        queue_id, physical_offset, queue_offset = place
        return self._admission.sent(
            offset_id(self._message_put.store_host, physical_offset),
            queue_id,
            queue_offset,
            unique_key.decode("utf-8", "replace"),
            is_durable=False,
        )


class Usual(NamedTuple):
    """A topic whose messages are plain."""

    topic: str
    queue_count: int


class Run:
    """Messages that are appended together, and their requests."""

    __slots__ = ("_drafts", "_sends", "began", "found", "requests", "rows")

    def __init__(self, sends: SendCollector) -> None:
        self._sends = sends
        self.began = perf_counter_ns()
        self.requests: list[Incoming[Any]] = []
        self.rows: list[Row] = []
        self.found: list[FoundProperties] = []
        self._drafts: list[Append] = []

    def submit(self, message_put: MessagePut) -> None:
        try:
            size_max = min(message_put.store.log.append_size_max, _RUN_SIZE_MAX)
            self._drafts = self.make(message_put, size_max)
            message_put.store.submit_all(self._drafts, self, at_once=True)
        except Exception as error:
            self._refuse_all(error)

    def make(self, message_put: MessagePut, size_max: int) -> list[Append]:
        return message_put.encoder.encode_plain(message_put.store_host, self.rows, self.found, size_max)

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        sends = self._sends
        drafts, requests, found = self._drafts, self.requests, self.found
        if len(appended) < len(drafts):
            drafts = drafts[first : first + len(appended)]
            requests, found = self._of(first, drafts, requests), self._of(first, drafts, found)
        self._count(drafts, len(requests))
        places = places_of(drafts[0], appended[0])
        for draft, at in zip(drafts[1:], appended[1:], strict=True):
            places += places_of(draft, at)
        if is_durable:
            sends.answers.send_all(requests, found, places)
            return
        for request, (unique_key, _, _), place in zip(requests, found, places, strict=True):
            Later[h.Sent](request).answer(sends.not_durable(place, unique_key))

    def _count(self, drafts: Sequence[Append], count: int) -> None:
        """Count stored messages, by topic."""
        self._sends.request_queue.under_way -= count
        nanos = perf_counter_ns() - self.began
        put_all = self._sends.statistics.put_all
        for draft in drafts:
            if draft.queues is None:
                put_all(draft.topic, len(draft.starts), len(draft.records), nanos)
                continue
            totals: dict[str, list[int]] = {}
            sizes = map(sub, (*draft.starts[1:], len(draft.records)), draft.starts)
            for (topic, _), size in zip(draft.queues, sizes, strict=True):
                total = totals.get(topic)
                if total is None:
                    totals[topic] = [1, size]
                else:
                    total[0] += 1
                    total[1] += size
            for topic, (messages, size) in totals.items():
                put_all(topic, messages, size, nanos)

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._refuse(self._of(first, self._drafts[first : first + count], self.requests), error)

    def _refuse_all(self, error: Exception) -> None:
        self._refuse(self.requests, error)

    def _refuse(self, requests: Sequence[Incoming[Any]], error: Exception) -> None:
        self._sends.request_queue.under_way -= len(requests)
        reply = self._sends.refused(error)
        for request in requests:
            Later[h.Sent](request).answer(reply)

    def _of(self, first: int, drafts: Sequence[Append], messages: list[T]) -> list[T]:
        """Return the slice of `messages` that `drafts` cover; `first` is the index of the first append."""
        if len(drafts) == len(self._drafts):
            return messages
        start = sum(len(draft.starts) for draft in self._drafts[:first])
        return messages[start : start + sum(len(draft.starts) for draft in drafts)]
