"""Takes messages out of queues for a group, and keeps others from taking the same."""

import logging
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from time import perf_counter

import msgspec

from kerolox.broker.bounds import check_name
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.checkpoints import MESSAGES_MAX
from kerolox.broker.pop.inflight import Inflight
from kerolox.broker.pop.names import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.broker.pop.orders import Orders
from kerolox.broker.pop.progress import Progress
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.store.queue.pull import GetStatus, Got, Matches, Wants
from kerolox.store.store import Store
from kerolox.wire.headers.pop import PopMessage

log = logging.getLogger(__name__)

# What entries of a queue and records must fulfil.
Selection = tuple[Matches | None, Wants | None]
Key = tuple[str, str, int]

INIT_MIN = 0
# All messages of a pop travel in one frame, which has an end.
_SIZE_MAX = 4 * 1024 * 1024
# So many queues are looked at before others have their turn.
QUEUES_MAX = 500
# The original begins at one of so many.
_STARTS = 100
_QUEUE_OFFSET = struct.Struct(">q")
_QUEUE_OFFSET_AT = 20
_ELSEWHERE = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)


class Part(msgspec.Struct):
    """Messages of one queue."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    next_offset: int
    offsets: list[int]
    records: list[bytes]

    @property
    def key(self) -> Key:
        return self.topic, self.group, self.queue_id

    @property
    def is_retry(self) -> bool:
        return self.topic.startswith(RETRY_PREFIX)


class Walk:
    """Queues that are still to be looked at, a part of them in each turn."""

    __slots__ = ("_places", "is_over")

    def __init__(self, places: Iterator[tuple[str, int]]) -> None:
        self._places = places
        self.is_over = False

    def next_part(self) -> list[tuple[str, int]]:
        part = list(islice(self._places, QUEUES_MAX))
        self.is_over = len(part) < QUEUES_MAX
        return part


@dataclass(slots=True)
class Taken:
    """What one look at the queues gave."""

    pop_time: int
    parts: list[Part] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    # Of all records.
    size: int = 0
    # How many messages there are that were not taken.
    rest: int = 0
    # Not all of the queues was looked at: what was, did not match.
    is_cut_short: bool = False
    # When a queue that is popped in order may give something again.
    visible_time: int = 0

    def follow(self, before: "Taken") -> None:
        """Takes over what was seen of the queues before."""
        self.is_cut_short |= before.is_cut_short
        times = [time for time in (self.visible_time, before.visible_time) if time]
        self.visible_time = min(times, default=0)

    @property
    def count(self) -> int:
        return sum(len(part.offsets) for part in self.parts)


class Taking:
    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        progress: Progress,
        orders: Orders,
        inflight: Inflight,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._progress = progress
        self._orders = orders
        self._inflight = inflight
        self._clock = clock
        # Queues whose messages are being handed out: nobody else takes of them until that is settled.
        self.locked: set[Key] = set()
        self.random: Callable[[int], int] = random.randrange

    def walk(self, request: PopMessage) -> Walk:
        return Walk(self._places(request))

    def take(self, request: PopMessage, selection: Selection, walk: Walk) -> Taken:
        """Takes up to as many messages as are asked for, and fit into an answer; one at least, however large.

        It looks at the next queues of the walk only, and knows nothing of those that follow. Queues that give some
        are locked until their checkpoint is stored, unless they are popped in order.
        """
        # It is kept until the queue is popped again.
        check_name("attempt id", request.attempt_id)
        taken = Taken(self._clock.millis())
        # As long as one pull may look: what is left of a queue, and the next queues, are looked at in another turn.
        deadline = inf if selection[1] is None else perf_counter() + self._store.reader.bounds.look_seconds
        is_late = False
        for topic, queue_id in walk.next_part():
            if request.order and topic.startswith(RETRY_PREFIX):
                continue
            rest = self.rest(topic, request.consumer_group, queue_id) if deadline < inf else 0
            if is_late:
                taken.rest += rest
                taken.is_cut_short |= rest > 0
                continue
            try:
                self._take(taken, request, topic, queue_id, selection)
            except SystemBusy:
                # There is no room for one more offset; what was taken before is handed out all the same.
                if not taken.parts:
                    raise
                break
            is_late = rest > 0 and perf_counter() >= deadline
        return taken

    def _places(self, request: PopMessage) -> Iterator[tuple[str, int]]:
        """Yields queues in the order in which they are looked at: retries come first in some pops, last in others."""
        number = self.random(100)
        retries = list(self._queues(self._retry_topic(request, number), ANY_QUEUE, number))
        is_retry_first = number < self._config.pop_from_retry_probability
        if is_retry_first:
            yield from retries
        yield from self._queues(request.topic, request.queue_id, number)
        if not is_retry_first:
            yield from retries

    def _retry_topic(self, request: PopMessage, number: int) -> str:
        """Returns one of the two kinds: both in one answer could not be told apart by old clients."""
        config = self._config
        is_v1 = not config.enable_retry_topic_v2
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            is_v1 = number % 2 == 0
        return retry_topic(request.topic, request.consumer_group, RETRY_V1 if is_v1 else RETRY_V2)

    def _queues(self, topic: str, queue_id: int, number: int) -> Iterator[tuple[str, int]]:
        if queue_id >= 0:
            yield topic, queue_id
        elif (config := self._topics.get(topic)) is not None:
            queues = config.read_queue_nums
            # A walk may end where it finds something, so that no queue is always among the last.
            start = number if queues <= _STARTS else self.random(queues)
            yield from ((topic, (start + index) % queues) for index in range(queues))

    def _take(self, taken: Taken, request: PopMessage, topic: str, queue_id: int, selection: Selection) -> None:
        group, key = request.consumer_group, (topic, request.consumer_group, queue_id)
        left = min(request.max_msg_nums, MESSAGES_MAX) - taken.count
        if key in self.locked or left <= 0 or self._is_over_threshold(key):
            if not (request.order and key in self.locked):
                taken.rest += self._rest(key, self._progress.get(group, topic, queue_id))
            return
        offset, is_noted = self._offset(key, request.init_mode)
        if request.order:
            until = self._orders.blocked_until(request.attempt_id, topic, group, queue_id, request.invisible_time)
            if until:
                taken.visible_time = min(until, taken.visible_time or until)
                return
            self._inflight.clear(topic, group, queue_id)
        got = self._get(topic, queue_id, offset, left, selection)
        if got.status in _ELSEWHERE and got.next_offset != offset:
            at, offset = offset, got.next_offset
            log.warning("group %s goes from %d to %d in queue %d of %s", group, at, offset, queue_id, topic)
            self._progress.set(group, topic, queue_id, offset)
            is_noted = True
            got = self._get(topic, queue_id, offset, left, selection)
        if taken.size and taken.size + got.size > _SIZE_MAX:
            taken.rest += max(0, got.max_offset - offset)
            return
        taken.rest += max(0, got.max_offset - got.next_offset)
        if not is_noted and got.next_offset > offset:
            self._progress.set(group, topic, queue_id, offset)
        if got.status is GetStatus.FOUND:
            self._found(taken, request, topic, queue_id, offset, got)
        elif got.next_offset > offset:
            taken.is_cut_short |= got.next_offset < got.max_offset
            # Nothing of it was handed out, so that it needs no checkpoint.
            self._progress.advance(group, topic, queue_id, got.next_offset, self._store.log.end_offset)

    def _found(self, taken: Taken, request: PopMessage, topic: str, queue_id: int, offset: int, got: Got) -> None:
        group, records = request.consumer_group, got.records
        offsets = [_QUEUE_OFFSET.unpack_from(record, _QUEUE_OFFSET_AT)[0] for record in records]
        part = Part(topic, group, queue_id, offset, got.next_offset, offsets, records)
        if request.order:
            counts = self._orders.popped(
                request.attempt_id, topic, group, queue_id, taken.pop_time, request.invisible_time, offsets
            )
            taken.order_counts.append(counts)
            self._offsets.commit(group, topic, queue_id, offset)
        else:
            self.locked.add(part.key)
        self._inflight.popped(topic, group, queue_id, len(offsets))
        taken.parts.append(part)
        taken.size += got.size

    def _get(self, topic: str, queue_id: int, offset: int, count: int, selection: Selection) -> Got:
        matches, wants = selection
        return self._store.reader.get(topic, queue_id, offset, count_max=count, matches=matches, wants=wants)

    # Where a group stands

    def _offset(self, key: Key, init_mode: int) -> tuple[int, bool]:
        """Returns where a group goes on, and whether that is noted.

        One that wants everything needs no note before it has taken something. One that wants what comes from now on
        does: later nobody could tell from where on that was.
        """
        topic, group, queue_id = key
        resets = self._offsets.resets.get(f"{topic}@{group}", {})
        if queue_id in resets:
            offset = resets.pop(queue_id)
            if not resets:
                self._offsets.resets.pop(f"{topic}@{group}", None)
            self._orders.clear(topic, group, queue_id)
            self._progress.set(group, topic, queue_id, offset)
            return offset, True
        known = self._progress.get(group, topic, queue_id)
        if known is not None:
            return known, True
        first = self._first_offset(topic, queue_id, init_mode)
        if self._wants_all(topic, init_mode):
            return first, False
        self._progress.set(group, topic, queue_id, first)
        return first, True

    def _wants_all(self, topic: str, init_mode: int) -> bool:
        return init_mode == INIT_MIN or topic.startswith(RETRY_PREFIX)

    def _first_offset(self, topic: str, queue_id: int, init_mode: int) -> int:
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return 0
        if self._wants_all(topic, init_mode):
            return queue.min_offset
        is_looked_at = self._config.init_pop_offset_by_check_msg_in_mem and queue.min_offset <= 0
        if is_looked_at and self._is_young(topic, queue_id):
            return 0
        # The last message, and then those that come.
        return max(queue.max_offset - 1, 0)

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Whether a queue is so new that its first message is still in memory: then nothing of it is passed over."""
        physical_offset = self._store.reader.physical_offset(topic, queue_id, 0)
        memory_size = self._store.reader.bounds.memory_size
        return physical_offset is not None and physical_offset >= self._store.log.end_offset - memory_size

    def _is_over_threshold(self, key: Key) -> bool:
        config = self._config
        if not config.enable_pop_message_threshold:
            return False
        return self._inflight.count(*key) > config.pop_inflight_message_threshold

    def _rest(self, key: Key, offset: int | None) -> int:
        topic, _, queue_id = key
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return 0
        return max(0, queue.max_offset - (queue.min_offset if offset is None else offset))

    def rest(self, topic: str, group: str, queue_id: int) -> int:
        """Returns how many messages of a queue the group has not popped."""
        return self._rest((topic, group, queue_id), self._progress.get(group, topic, queue_id))
