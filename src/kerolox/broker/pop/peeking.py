"""Looks at what could be popped, and changes nothing."""

from collections.abc import Iterator

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.pop.names import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.broker.pop.orders import Orders
from kerolox.broker.pop.progress import Progress
from kerolox.broker.pop.taking import Taking, Walk
from kerolox.broker.topics import TopicTable
from kerolox.store.queue.pull import GetStatus
from kerolox.store.store import Store
from kerolox.wire.headers.pop import Notification, PeekMessage

_ELSEWHERE = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)
_COUNT_MAX = 32


class Peeking:
    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        progress: Progress,
        orders: Orders,
        taking: Taking,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._progress = progress
        self._orders = orders
        self._taking = taking

    def walk(self, request: PeekMessage | Notification) -> Walk:
        """Returns the queues to look at."""
        return Walk(self._places(request))

    def peek(self, request: PeekMessage, walk: Walk) -> tuple[list[bytes], int]:
        """Returns the messages of the next queues that would be popped next, and how many there are in these."""
        records: list[bytes] = []
        rest = 0
        for topic, queue_id in walk.next_part():
            rest += self._taking.rest(topic, request.consumer_group, queue_id)
            left = min(request.max_msg_nums, _COUNT_MAX) - len(records)
            if left <= 0:
                continue
            offset = self._progress.get(request.consumer_group, topic, queue_id)
            if offset is None:
                offset = max(0, self._store.reader.min_offset(topic, queue_id))
            got = self._store.reader.get(topic, queue_id, offset, count_max=left)
            if got.status in _ELSEWHERE:
                got = self._store.reader.get(topic, queue_id, got.next_offset, count_max=left)
            records += got.records
        return records, rest

    def has_message(self, request: Notification, walk: Walk) -> tuple[bool, int]:
        """Returns whether the next queues have something to pop, and if not, when one has again (0: not known)."""
        visible_time = 0
        for topic, queue_id in walk.next_part():
            if request.order:
                until = self._orders.blocked_until(
                    request.attempt_id, request.topic, request.consumer_group, queue_id, 0
                )
                if until:
                    visible_time = min(until, visible_time or until)
                    continue
            if self._taking.rest(topic, request.consumer_group, queue_id) > 0:
                return True, 0
        return False, visible_time

    def _places(self, request: PeekMessage | Notification) -> Iterator[tuple[str, int]]:
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
