"""Which queue a message goes to."""

import random
from collections.abc import Callable, Sequence

from kerolox.client.routes import TopicRoute
from kerolox.message.tags import java_hash
from kerolox.wire.bodies.queues import MessageQueue

# Picks one of the queues, for a message that must go there and nowhere else.
Selector = Callable[[Sequence[MessageQueue]], MessageQueue]


class TopicQueues:
    """The queues of a topic, taken in turn."""

    def __init__(self, topic: str, route: TopicRoute, queues: Sequence[MessageQueue] | None = None) -> None:
        self.route = route
        # Under the topic's name as the user knows it.
        self.queues = tuple(
            MessageQueue(queue.broker_name, queue.queue_id, topic)
            for queue in (route.write_queues if queues is None else queues)
        )
        self.brokers = frozenset(queue.broker_name for queue in self.queues)
        # Producers that all began with the first queue would fill it more than the others.
        self._turn = random.randrange(1 << 16)  # noqa: S311

    def next(self) -> MessageQueue:
        self._turn += 1
        return self.queues[self._turn % len(self.queues)]

    def next_of(self, is_good: Callable[[str], bool], last_broker: str | None) -> MessageQueue:
        """Returns the next queue of a good broker that is not the last one; then of any other; then any."""
        other: MessageQueue | None = None
        for _ in self.queues:
            queue = self.next()
            if queue.broker_name == last_broker:
                continue
            if is_good(queue.broker_name):
                return queue
            other = other or queue
        return other or self.next()


def by_hash(value: str | int) -> Selector:
    """As Java's SelectMessageQueueByHash: the same value goes to the same queue, as long as there are as many."""
    hashed = abs(java_hash(value) if isinstance(value, str) else _int_hash(value))
    return lambda queues: queues[hashed % len(queues)]


def _int_hash(value: int) -> int:
    """Returns the hash of an Integer, or of a Long where it is too large for one."""
    if -(1 << 31) <= value < 1 << 31:
        return value
    folded = (value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return (folded ^ 0x80000000) - 0x80000000


def exactly(queue: MessageQueue) -> Selector:
    return lambda queues: queue
