"""Looking at messages that could be popped, without popping them (PeekMessageProcessor, NotificationProcessor)."""

from collections.abc import Iterator
from functools import partial
from time import perf_counter

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.receipt_handle import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.broker.pop.take import PopTake, QueueScan
from kerolox.broker.pull.message_filter import EVERYTHING, MessageFilter
from kerolox.store.log.segments import NotInMemory
from kerolox.store.queue.lookup import GetResult, GetStatus
from kerolox.wire.headers.pop import Notification, PeekMessage

# Statuses whose `next_offset` corrects an offset outside the queue.
_CORRECTED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)
_COUNT_MAX = 32


class PopPeek:
    def __init__(self, parts: BrokerParts, pop: PopParts, take: PopTake) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._pop_offsets = pop.offsets
        self._orders = pop.orders
        self._take = take

    def scan(self, request: PeekMessage | Notification) -> QueueScan:
        """Return the queues to look at."""
        return QueueScan(self._queues_to_scan(request))

    async def peek(self, request: PeekMessage, scan: QueueScan) -> tuple[list[bytes], int]:
        """Return the messages that would be popped from the next queues, and how many these have in all.

        Suspends only to read the disk.
        """
        records: list[bytes] = []
        remaining = 0
        for topic, queue_id in scan.next_queues():
            remaining += self._take.remaining(topic, request.consumer_group, queue_id)
            left = min(request.max_msg_nums, _COUNT_MAX) - len(records)
            if left <= 0:
                continue
            get = partial(self._next, topic, request.consumer_group, queue_id, left)
            records += (await self._store.cold_reads.read(get)).records
        return records, remaining

    def has_message(self, request: Notification, message_filter: MessageFilter, scan: QueueScan) -> tuple[bool, int]:
        """Return whether the next queues have a message to pop, and if not, when one will have (0 if unknown).

        True if it would take too long to find out whether a message matches the filter, or need the disk.
        """
        visible_time = 0
        deadline = perf_counter() + self._store.reader.bounds.look_seconds
        for topic, queue_id in scan.next_queues():
            if request.order:
                until = self._orders.blocked_until(
                    request.attempt_id, request.topic, request.consumer_group, queue_id, 0
                )
                if until:
                    visible_time = min(until, visible_time or until)
                    continue
            remaining = self._take.remaining(topic, request.consumer_group, queue_id)
            if remaining <= 0:
                continue
            # Retried messages matched when the group popped them first.
            is_unfiltered = message_filter == EVERYTHING or topic != request.topic
            if (
                is_unfiltered
                or remaining >= self._config.max_message_filter_num_for_notification
                or perf_counter() >= deadline
            ):
                return True, 0
            if self._has_match(topic, request.consumer_group, queue_id, message_filter):
                return True, 0
        return False, visible_time

    def _has_match(self, topic: str, group: str, queue_id: int, message_filter: MessageFilter) -> bool:
        try:
            got = self._store.cold_reads.in_memory(partial(self._next, topic, group, queue_id, 1, message_filter))
        except NotInMemory:
            return True
        return got.status is GetStatus.FOUND or got.next_offset < got.max_offset

    def _next(
        self, topic: str, group: str, queue_id: int, count_max: int, message_filter: MessageFilter = EVERYTHING
    ) -> GetResult:
        """Read the messages of a queue that the group would pop next."""
        matches, wants = message_filter
        offset = self._pop_offsets.get(group, topic, queue_id)
        if offset is None:
            offset = max(0, self._store.reader.min_offset(topic, queue_id))
        get = partial(self._store.reader.get, topic, queue_id, count_max=count_max, matches=matches, wants=wants)
        got = get(offset)
        return get(got.next_offset) if got.status in _CORRECTED else got

    def _queues_to_scan(self, request: PeekMessage | Notification) -> Iterator[tuple[str, int]]:
        topic, group = request.topic, request.consumer_group
        yield from self._queues(topic, request.queue_id)
        config = self._config
        if config.enable_retry_topic_v2:
            yield from self._queues(retry_topic(topic, group, RETRY_V2), ANY_QUEUE)
        if not config.enable_retry_topic_v2 or config.retrieve_message_from_pop_retry_topic_v1:
            yield from self._queues(retry_topic(topic, group, RETRY_V1), ANY_QUEUE)

    def _queues(self, topic: str, queue_id: int) -> Iterator[tuple[str, int]]:
        if queue_id >= 0:
            yield topic, queue_id
        elif (config := self._topics.get(topic)) is not None:
            yield from ((topic, number) for number in range(config.read_queue_nums))
