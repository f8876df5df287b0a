"""Most messages by far: those that nothing is to be done about but store them, taken together.

What comes in one turn of the loop is checked as it comes; records are made, stored, counted and answered in one go,
which costs half of what it does one by one.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeVar

from kerolox.broker.admission import Admission, Sending
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.sent import UNIQUE_KEY_SIZE_MAX, Place, SentAnswers, places_of
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing, born_host, refusal
from kerolox.broker.system_topics import NOT_FOR_PRODUCERS, RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.message import names, sysflag
from kerolox.message.hosts import NOWHERE
from kerolox.message.ids import offset_id
from kerolox.message.plain import Found
from kerolox.message.properties import mark
from kerolox.message.record import PROPERTIES_SIZE_MAX, Row
from kerolox.remoting.routes import Incoming, Later
from kerolox.runtime.lanes import Lane
from kerolox.runtime.server_loop import at_end_of_turn
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.wire.frames import Frame
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

# Transactions and batches in one record are somebody else's.
_UNUSUAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH
# More than a record has beside body and properties.
_REST_SIZE_MAX = 512
# So many bytes of one topic are appended together at the most: a file of the log has room for all of them, or none.
_RUN_SIZE_MAX = 256 * 1024
# So many messages of one turn are worth to be looked at together.
FEW = 16

T = TypeVar("T")


class PlainSends:
    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        admission: Admission,
        storing: Storing,
        lane: Lane,
        statistics: Statistics,
    ) -> None:
        self._config = config
        self._topics = topics.topics
        self._admission = admission
        self._storing = storing
        self.lane = lane
        self._read = storing.drafts.properties.read
        self._body_size_max = storing.drafts.body_size_max
        self._cluster = mark(names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"
        self._properties_size_max = PROPERTIES_SIZE_MAX - len(self._cluster) - 1
        # One that fits into no file of the log would be refused with all others that came with it.
        self._size_max = storing.store.log.draft_size_max - len(self._cluster) - _REST_SIZE_MAX
        self._loop: asyncio.AbstractEventLoop | None = None
        # By topic, what has come in this turn; None for a topic whose messages are not plain.
        self._runs: dict[str, Run | None] = {}
        # Who sent the last, and from where.
        self._origin: Any = None
        self._born_host = NOWHERE
        self.statistics = statistics
        self.answers = SentAnswers(config, storing)
        # Whether the last turn brought more than a few.
        self.is_busy = False
        # A frame that others may be like, and who wants to know what it was if it is taken.
        self.candidate: Frame | None = None
        self.learn: Callable[[Frame, Incoming[Any], Found], None] = lambda frame, request, found: None

    def take(self, request: Incoming[Any]) -> bool:
        """Takes a message, which is stored with the others of this turn; False if it is none of the plain ones."""
        header: Sending = request.header
        topic = header.topic
        run = self._runs.get(topic)
        if run is None and topic not in self._runs:
            run = self._runs[topic] = self._begin(topic)
        queue_id, body, properties = header.queue_id, request.body, header.properties
        if (
            run is None
            or not 0 <= queue_id < run.queue_count
            or not 0 < len(body) <= self._body_size_max
            or not properties
            or header.batch
            or header.sys_flag & _UNUSUAL
        ):
            return False
        data = properties.encode("utf-8", "surrogateescape")
        fits = len(data) <= self._properties_size_max and len(body) + len(data) <= self._size_max
        read = self._read(data) if fits else None
        lane = self.lane
        if read is None or lane.under_way >= lane.capacity:
            return False
        unique_key = read[0]
        if not unique_key.isalnum() or len(unique_key) > UNIQUE_KEY_SIZE_MAX:
            return False
        if request.origin is not self._origin:
            # The messages of one read come one after the other.
            self._origin, self._born_host = request.origin, born_host(request.origin.remote)
        if self.candidate is not None:
            candidate, self.candidate = self.candidate, None
            self.learn(candidate, request, read)
        lane.under_way += 1
        run.requests.append(request)
        run.found.append(read)
        run.rows.append(
            (
                queue_id,
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

    def _begin(self, name: str) -> "Run | None":
        """Returns what gathers the messages of a topic in this turn; None if each of them has to be looked at."""
        if not self._runs:
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._end)
        usual = self.usual(name)
        return None if usual is None else Run(self, usual.topic, usual.queue_count)

    def usual(self, name: str) -> "Usual | None":
        """Returns what is to be known of a topic; None if its messages have to be looked at one by one."""
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
        """Whether so many messages can be taken whose bodies and properties are of these sizes."""
        return (
            body_size_min > 0
            and body_size_max <= self._body_size_max
            and properties_size <= self._properties_size_max
            and body_size_max + properties_size <= self._size_max
            and self.lane.under_way + count <= self.lane.capacity
        )

    def closed(self, properties: bytes) -> bytes:
        """Returns what follows the unique key, with what the broker adds."""
        return properties + (self._cluster if properties.endswith(b"\x02") else b"\x02" + self._cluster)

    def count(self, run: "Run", count: int, size: int) -> None:
        """Counts messages that were stored."""
        self.lane.under_way -= count
        self.statistics.put_all(run.topic, count, size, perf_counter_ns() - run.began)

    def _end(self) -> None:
        runs, self._runs, self._origin, self.candidate = self._runs, {}, None, None
        self.is_busy = sum(len(run.requests) for run in runs.values() if run is not None) >= FEW
        for run in runs.values():
            if run is not None and run.requests:
                run.submit(self._storing)

    def submit(self) -> None:
        """Has stored what has come so far: what comes after it is stored after it."""
        for name, run in self._runs.items():
            if run is not None and run.requests:
                # What was taken so far keeps its lists.
                self._runs[name] = Run(self, run.topic, run.queue_count)
                run.submit(self._storing)

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))

    def not_durable(self, place: Place, unique_key: bytes) -> Reply[h.Sent]:
        queue_id, physical_offset, queue_offset = place
        return self._admission.sent(
            offset_id(self._storing.store_host, physical_offset),
            queue_id,
            queue_offset,
            unique_key.decode("utf-8", "replace"),
            is_durable=False,
        )


class Usual(NamedTuple):
    """A topic whose messages are stored as they come."""

    topic: str
    queue_count: int


class Run:
    """Messages of one topic on their way to the log, and those who wait for them."""

    __slots__ = ("_drafts", "_sends", "began", "found", "queue_count", "requests", "rows", "topic")

    def __init__(self, sends: PlainSends, topic: str, queue_count: int) -> None:
        self._sends = sends
        self.began = perf_counter_ns()
        self.topic = topic
        self.queue_count = queue_count
        self.requests: list[Incoming[Any]] = []
        self.rows: list[Row] = []
        self.found: list[Found] = []
        self._drafts: list[Draft] = []

    def submit(self, storing: Storing) -> None:
        try:
            size_max = min(storing.store.log.draft_size_max, _RUN_SIZE_MAX)
            self._drafts = self.make(storing, size_max)
            storing.store.submit_all(self._drafts, self, at_once=True)
        except Exception as error:
            self._refuse_all(error)

    def make(self, storing: Storing, size_max: int) -> list[Draft]:
        return storing.drafts.plain(self.topic, storing.store_host, self.rows, self.found, size_max)

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        sends = self._sends
        drafts, requests, found = self._drafts, self.requests, self.found
        if len(appended) < len(drafts):
            drafts = drafts[first : first + len(appended)]
            requests, found = self._of(first, drafts, requests), self._of(first, drafts, found)
        sends.count(self, len(requests), appended[-1].end_offset - appended[0].physical_offset)
        places = places_of(drafts[0], appended[0])
        for draft, at in zip(drafts[1:], appended[1:], strict=True):
            places += places_of(draft, at)
        if is_durable:
            sends.answers.send_all(requests, found, places)
            return
        for request, (unique_key, _, _), place in zip(requests, found, places, strict=True):
            Later[h.Sent](request).answer(sends.not_durable(place, unique_key))

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._refuse(self._of(first, self._drafts[first : first + count], self.requests), error)

    def _refuse_all(self, error: Exception) -> None:
        self._refuse(self.requests, error)

    def _refuse(self, requests: Sequence[Incoming[Any]], error: Exception) -> None:
        self._sends.lane.under_way -= len(requests)
        reply = self._sends.refused(error)
        for request in requests:
            Later[h.Sent](request).answer(reply)

    def _of(self, first: int, drafts: Sequence[Draft], messages: list[T]) -> list[T]:
        """Returns of messages those that are in drafts, of which this is the first."""
        if len(drafts) == len(self._drafts):
            return messages
        start = sum(len(draft.starts) for draft in self._drafts[:first])
        return messages[start : start + sum(len(draft.starts) for draft in drafts)]
