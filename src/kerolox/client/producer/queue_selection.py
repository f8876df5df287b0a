"""Selects the queue of a message (MQFaultStrategy, SelectMessageQueueByHash)."""

import random
from collections.abc import Callable, Sequence

from kerolox.client.session.topic_routes import TopicRoute
from kerolox.message.tags import java_hash
from kerolox.wire.bodies.queues import MessageQueue

# Picks the only queue that a message may go to.
Selector = Callable[[Sequence[MessageQueue]], MessageQueue]


class TopicQueues:
    """The queues of a topic, used round-robin."""

    def __init__(self, topic: str, route: TopicRoute, queues: Sequence[MessageQueue] | None = None) -> None:
        self.route = route
        # Their topic is without the namespace.
        self.queues = tuple(
            MessageQueue(queue.broker_name, queue.queue_id, topic)
            for queue in (route.write_queues if queues is None else queues)
        )
        self.brokers = frozenset(queue.broker_name for queue in self.queues)
        # Random, because producers that all start with the first queue would fill it more than the others.
        self._position = random.randrange(1 << 16)  # noqa: S311

    def next(self) -> MessageQueue:
        self._position += 1
        return self.queues[self._position % len(self.queues)]

    def next_available(self, is_available: Callable[[str], bool], last_broker: str | None) -> MessageQueue:
        """Return the next queue of an available broker other than `last_broker`; else of any other; else of any."""
        other: MessageQueue | None = None
        for _ in self.queues:
            queue = self.next()
            if queue.broker_name == last_broker:
                continue
            if is_available(queue.broker_name):
                return queue
            other = other or queue
        return other or self.next()


def by_hash(value: str | int) -> Selector:
    """Equal values go to the same queue while the number of queues is unchanged (SelectMessageQueueByHash)."""
    hashed = abs(java_hash(value) if isinstance(value, str) else _int_hash(value))
    return lambda queues: queues[hashed % len(queues)]


def _int_hash(value: int) -> int:
    """Return Java's hashCode of an Integer, or of a Long if the value does not fit an Integer."""
    if -(1 << 31) <= value < 1 << 31:
        return value
    folded = (value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return (folded ^ 0x80000000) - 0x80000000


def fixed_queue(queue: MessageQueue) -> Selector:
    return lambda queues: queue
