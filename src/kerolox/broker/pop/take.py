"""Taking messages out of queues for a group; a queue is locked until its checkpoint is stored."""

import logging
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from time import perf_counter

import msgspec

from kerolox.broker.client_limits import check_name
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.checkpoints import MESSAGES_MAX
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.receipt_handle import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.broker.pull.message_filter import MessageFilter
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import SystemBusy
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import NotInMemory, Span
from kerolox.store.queue.lookup import GetResult, GetStatus
from kerolox.wire.headers.pop import PopMessage

log = logging.getLogger(__name__)

# Topic, group, queue.
Key = tuple[str, str, int]
# Identifies requests that scan the same queues: topic, group, queue, and whether they pop in order.
ScanKey = tuple[str, str, int, bool]

# `initMode` of a request: a new group starts at the first message of a queue, not at the last.
INIT_MIN = 0
# Bytes of messages in one response.
_SIZE_MAX = 4 * 1024 * 1024
# Queues looked at without yielding to other tasks.
QUEUES_MAX = 500
# Queues on disk that are read together, and the time after which a pop that found nothing reads no more of them.
_COLD_QUEUES_MAX = 8
_COLD_SECONDS_MAX = 1.0
# Limits for the queues on disk that are left to the next request: kinds of requests, and queues of each.
_SKIPPED_SCANS_MAX = 1000
_SKIPPED_QUEUES_MAX = 16
# RocketMQ starts at a queue number below this, however many queues a topic has.
_START_QUEUES_MAX = 100
_QUEUE_OFFSET = struct.Struct(">q")
_QUEUE_OFFSET_AT = 20
# Statuses whose `next_offset` corrects an offset outside the queue.
_CORRECTED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)


class PoppedBatch(msgspec.Struct):
    """Messages of one queue that one request popped."""

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


class QueueScan:
    """The queues that a request has still to look at, in portions of `QUEUES_MAX`."""

    __slots__ = ("_queues", "is_finished")

    def __init__(self, queues: Iterator[tuple[str, int]]) -> None:
        self._queues = queues
        self.is_finished = False

    def next_queues(self) -> list[tuple[str, int]]:
        queues = list(islice(self._queues, QUEUES_MAX))
        self.is_finished = len(queues) < QUEUES_MAX
        return queues


@dataclass(slots=True)
class PopResult:
    """Messages taken from one portion of a scan."""

    pop_time: int
    batches: list[PoppedBatch] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    # Bytes of all records.
    size: int = 0
    # Messages of these queues that were not taken.
    remaining: int = 0
    # Queues must be looked at again: filtering took too long, or messages may have arrived while the disk was read.
    is_cut_short: bool = False
    # When the first of the blocked queues (popped in order) gives messages again; 0 if none is blocked.
    visible_time: int = 0
    # Queues whose next messages are not in memory, so that nothing was taken from them; and what has to be fetched.
    cold: list[tuple[str, int]] = field(default_factory=list)
    missing: list[Span] = field(default_factory=list)

    def merge_scan_state(self, before: "PopResult") -> None:
        """Add what the previous portion of the scan, which found nothing, learned about its queues."""
        self.is_cut_short |= before.is_cut_short
        times = [time for time in (self.visible_time, before.visible_time) if time]
        self.visible_time = min(times, default=0)

    @property
    def count(self) -> int:
        return sum(len(batch.offsets) for batch in self.batches)


class PopTake:
    def __init__(self, parts: BrokerParts, pop: PopParts) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clock = parts.clock
        self._pop_offsets = pop.offsets
        self._orders = pop.orders
        self._in_flight = pop.in_flight
        # Queues whose checkpoint is being stored -> end of the log before it. Nothing else is taken from a locked
        # queue, since its offset advances only when the checkpoint is stored.
        self.locked: dict[Key, int] = {}
        # Queues on disk that requests skipped, since others had messages in memory.
        self._skipped: dict[ScanKey, Sequence[tuple[str, int]]] = {}
        self.random: Callable[[int], int] = random.randrange

    def scan(self, request: PopMessage) -> QueueScan:
        return QueueScan(self._queues_to_scan(request))

    async def take(self, request: PopMessage, message_filter: MessageFilter, scan: QueueScan) -> PopResult:
        """Take up to `max_msg_nums` messages that fit into a response, but at least one, however large.

        Only the next portion of the scan is looked at. Queues that give messages stay locked until their checkpoint
        is stored, unless they are popped in order.

        Queues whose messages are on disk are read only if no other has messages, a few at a time until one has some.
        Otherwise they are left to the next request that scans the same queues, which reads them first, so that
        they are not starved. Suspends only to read the disk.
        """
        # The attempt id is kept until the queue is popped again.
        check_name("attempt id", request.attempt_id)
        scan_key = request.topic, request.consumer_group, request.queue_id, bool(request.order)
        skipped = self._skipped.pop(scan_key, ())
        result = await self._take_cold(request, message_filter, skipped)
        if result.batches:
            # Nothing else is added: the queues of another scan may be those of another version of the retry topic.
            result.remaining += self._remaining_of(request, set(scan.next_queues()) - set(skipped))
            return result
        result = self.take_in_memory(request, message_filter, scan)
        if result.cold and result.batches:
            if len(self._skipped) >= _SKIPPED_SCANS_MAX:
                self._skipped.pop(next(iter(self._skipped)))
            self._skipped[scan_key] = result.cold[:_SKIPPED_QUEUES_MAX]
        elif result.cold:
            before = result
            result = await self._take_cold(request, message_filter, before.cold)
            result.merge_scan_state(before)
            result.remaining += before.remaining
            result.is_cut_short |= not result.batches
            return result
        result.remaining += self._remaining_of(request, result.cold)
        return result

    async def _take_cold(
        self, request: PopMessage, message_filter: MessageFilter, queues: Sequence[tuple[str, int]]
    ) -> PopResult:
        """Take from the first of the queues that have messages, on disk or meanwhile in memory.

        Messages of all queues that are not taken count as remaining.
        """
        result = PopResult(self._clock.millis())
        deadline = perf_counter() + _COLD_SECONDS_MAX
        for first in range(0, len(queues), _COLD_QUEUES_MAX):
            before, some = result, queues[first : first + _COLD_QUEUES_MAX]
            # Another request may take from the queues or lock them while the disk is read.
            result = await self._store.cold_reads.read(partial(self._take_fetched, request, message_filter, some))
            result.merge_scan_state(before)
            result.remaining += before.remaining + self._remaining_of(request, result.cold)
            if result.batches or perf_counter() >= deadline:
                result.remaining += self._remaining_of(request, queues[first + _COLD_QUEUES_MAX :])
                break
        return result

    def _take_fetched(
        self, request: PopMessage, message_filter: MessageFilter, queues: Sequence[tuple[str, int]]
    ) -> PopResult:
        """Take messages that are in memory; NotInMemory if there are none, but others that have to be fetched."""
        result = self._take_all(request, message_filter, queues)
        if result.missing and not result.batches:
            raise NotInMemory(result.missing)
        return result

    def take_in_memory(self, request: PopMessage, message_filter: MessageFilter, scan: QueueScan) -> PopResult:
        """Take messages that are in memory; the others are counted neither as taken nor as remaining."""
        queues = scan.next_queues()
        return self._store.cold_reads.in_memory(partial(self._take_all, request, message_filter, queues))

    def _take_all(
        self, request: PopMessage, message_filter: MessageFilter, queues: Sequence[tuple[str, int]]
    ) -> PopResult:
        result = PopResult(self._clock.millis())
        # Filtering by properties reads records. It stops after the time that one pull may take; the rest is looked
        # at by the next call.
        deadline = inf if message_filter.wants is None else perf_counter() + self._store.reader.bounds.look_seconds
        is_late = False
        for topic, queue_id in queues:
            if request.order and topic.startswith(RETRY_PREFIX):
                continue
            remaining = self.remaining(topic, request.consumer_group, queue_id) if deadline < inf else 0
            if is_late:
                result.remaining += remaining
                result.is_cut_short |= remaining > 0
                continue
            try:
                self._take(result, request, topic, queue_id, message_filter)
            except NotInMemory as error:
                result.cold.append((topic, queue_id))
                result.missing += error.spans
            except (SystemBusy, StoreError):
                # The table of offsets is full, or a queue is damaged. Messages taken before are returned all the same.
                if not result.batches:
                    raise
                break
            is_late = remaining > 0 and perf_counter() >= deadline
        return result

    def _queues_to_scan(self, request: PopMessage) -> Iterator[tuple[str, int]]:
        """Yield queues in the order of the scan; retries come first with `popFromRetryProbability`, else last."""
        number = self.random(100)
        retries = list(self._queues(self._retry_topic(request, number), ANY_QUEUE, number))
        is_retry_first = number < self._config.pop_from_retry_probability
        if is_retry_first:
            yield from retries
        yield from self._queues(request.topic, request.queue_id, number)
        if not is_retry_first:
            yield from retries

    def _retry_topic(self, request: PopMessage, number: int) -> str:
        """Return the v1 or the v2 retry topic; old clients cannot tell messages of both apart in one response."""
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
            # A scan ends at the first portion with messages, so a random start keeps all queues served.
            start = number if queues <= _START_QUEUES_MAX else self.random(queues)
            yield from ((topic, (start + index) % queues) for index in range(queues))

    def _take(
        self, result: PopResult, request: PopMessage, topic: str, queue_id: int, message_filter: MessageFilter
    ) -> None:
        group, key = request.consumer_group, (topic, request.consumer_group, queue_id)
        left = min(request.max_msg_nums, MESSAGES_MAX) - result.count
        if key in self.locked or left <= 0 or self._is_over_threshold(key):
            if not (request.order and key in self.locked):
                result.remaining += self._remaining(key, self._pop_offsets.get(group, topic, queue_id))
            return
        offset, is_committed = self._offset(key, request.init_mode)
        limit = None
        if self._pop_offsets.has_recovered:
            before = offset
            offset, limit = self._pop_offsets.pass_recovered(group, topic, queue_id, before)
            if offset != before:
                self._pop_offsets.set(group, topic, queue_id, offset)
                is_committed = True
        if request.order:
            until = self._orders.blocked_until(request.attempt_id, topic, group, queue_id, request.invisible_time)
            if until:
                result.visible_time = min(until, result.visible_time or until)
                return
            self._in_flight.clear(topic, group, queue_id)
        got = self._get(topic, queue_id, offset, left, message_filter, limit)
        if got.status in _CORRECTED and got.next_offset != offset:
            before, offset = offset, got.next_offset
            log.warning(
                "offset of group %s in queue %d of %s corrected from %d to %d", group, queue_id, topic, before, offset
            )
            self._pop_offsets.set(group, topic, queue_id, offset)
            is_committed = True
            got = self._get(topic, queue_id, offset, left, message_filter)
        if result.size and result.size + got.size > _SIZE_MAX:
            result.remaining += max(0, got.max_offset - offset)
            return
        result.remaining += max(0, got.max_offset - got.next_offset)
        if not is_committed and got.next_offset > offset:
            self._pop_offsets.set(group, topic, queue_id, offset)
        if got.status is GetStatus.FOUND:
            self._found(result, request, topic, queue_id, offset, got)
        elif got.next_offset > offset:
            result.is_cut_short |= got.next_offset < got.max_offset
            # No message of this range was returned, so no checkpoint is needed.
            self._pop_offsets.advance(group, topic, queue_id, got.next_offset, self._store.log.end_offset)

    def _found(
        self, result: PopResult, request: PopMessage, topic: str, queue_id: int, offset: int, got: GetResult
    ) -> None:
        group, records = request.consumer_group, got.records
        offsets = [_QUEUE_OFFSET.unpack_from(record, _QUEUE_OFFSET_AT)[0] for record in records]
        batch = PoppedBatch(topic, group, queue_id, offset, got.next_offset, offsets, records)
        if request.order:
            counts = self._orders.popped(
                request.attempt_id, topic, group, queue_id, result.pop_time, request.invisible_time, offsets
            )
            result.order_counts.append(counts)
            self._offsets.commit(group, topic, queue_id, offset)
            self._offsets.file.save_soon()
        else:
            self.locked[batch.key] = self._store.log.end_offset
        self._in_flight.popped(topic, group, queue_id, result.pop_time, len(offsets))
        result.batches.append(batch)
        result.size += got.size

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        message_filter: MessageFilter,
        limit: int | None = None,
    ) -> GetResult:
        """Return the next messages of a queue, those before offset `limit` only."""
        bounds = self._store.reader.bounds
        if limit is not None:
            count = min(count, limit - offset)
            bounds = msgspec.structs.replace(bounds, entries_max=min(bounds.entries_max, limit - offset))
        return self._store.reader.get(
            topic,
            queue_id,
            offset,
            count_max=count,
            bounds=bounds,
            matches=message_filter.matches,
            wants=message_filter.wants,
        )

    # Offsets

    def _offset(self, key: Key, init_mode: int) -> tuple[int, bool]:
        """Return the next offset of a group, and whether it is committed.

        A new group that starts at the first message needs no commit before it pops something. One that starts at
        the end does: otherwise its start would move on with every message that arrives.
        """
        topic, group, queue_id = key
        resets = self._offsets.resets.get(f"{topic}@{group}", {})
        if queue_id in resets:
            offset = resets.pop(queue_id)
            if not resets:
                self._offsets.resets.pop(f"{topic}@{group}", None)
            self._orders.clear(topic, group, queue_id)
            self._pop_offsets.forget_recovered(group, topic, queue_id)
            self._pop_offsets.set(group, topic, queue_id, offset)
            return offset, True
        next_offset = self._pop_offsets.get(group, topic, queue_id)
        if next_offset is not None:
            return next_offset, True
        first = self._first_offset(topic, queue_id, init_mode)
        if self._wants_all(topic, init_mode):
            return first, False
        recovered = self._pop_offsets.first_recovered(group, topic, queue_id)
        first = first if recovered is None else recovered
        self._pop_offsets.set(group, topic, queue_id, first)
        # Saved soon: after a crash without it the group would start elsewhere.
        self._offsets.file.save_soon()
        return first, True

    def _wants_all(self, topic: str, init_mode: int) -> bool:
        return init_mode == INIT_MIN or topic.startswith(RETRY_PREFIX)

    def _first_offset(self, topic: str, queue_id: int, init_mode: int) -> int:
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return 0
        if self._wants_all(topic, init_mode):
            return queue.min_offset
        may_start_at_zero = self._config.init_pop_offset_by_check_msg_in_mem and queue.min_offset <= 0
        if may_start_at_zero and self._is_young(topic, queue_id):
            return 0
        # RocketMQ includes the last message.
        return max(queue.max_offset - 1, 0)

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Whether the first message of a queue is still in memory; then a new group gets all of them."""
        physical_offset = self._store.reader.physical_offset(topic, queue_id, 0)
        memory_size = self._store.reader.bounds.memory_size
        return physical_offset is not None and physical_offset >= self._store.log.end_offset - memory_size

    def _is_over_threshold(self, key: Key) -> bool:
        config = self._config
        if not config.enable_pop_message_threshold:
            return False
        return self._in_flight.count(*key) > config.pop_inflight_message_threshold

    def _remaining(self, key: Key, offset: int | None) -> int:
        topic, _, queue_id = key
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return 0
        return max(0, queue.max_offset - (queue.min_offset if offset is None else offset))

    def _remaining_of(self, request: PopMessage, queues: Iterable[tuple[str, int]]) -> int:
        return sum(
            self.remaining(topic, request.consumer_group, queue_id)
            for topic, queue_id in queues
            if not (request.order and topic.startswith(RETRY_PREFIX))
        )

    def remaining(self, topic: str, group: str, queue_id: int) -> int:
        """Return how many messages of a queue the group has not popped."""
        return self._remaining((topic, group, queue_id), self._pop_offsets.get(group, topic, queue_id))
