"""Locks of queues by clients of a group."""

from kerolox.broker.tables.queue_locks import QueueLocks
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.queues import MessageQueue


def queue(number: int) -> MessageQueue:
    return MessageQueue("broker-a", number, "orders")


async def test_a_lock_belongs_to_its_owner_until_it_is_released_or_expires() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)

    assert locks.lock("g", "one", [queue(0), queue(1)]) == [queue(0), queue(1)]
    assert locks.lock("g", "two", [queue(0), queue(2)]) == [queue(2)]
    assert locks.lock("other", "two", [queue(0)]) == [queue(0)]
    locks.unlock("g", "two", [queue(0)])
    assert locks.lock("g", "two", [queue(0)]) == []
    locks.unlock("g", "one", [queue(0)])
    assert locks.lock("g", "two", [queue(0)]) == [queue(0)]
    await clock.advance(61)
    assert not locks.is_locked("g")
    assert locks.lock("g", "two", [queue(1)]) == [queue(1)]


async def test_the_number_of_locks_is_limited() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, locks_max=3)

    assert locks.lock("g", "one", map(queue, range(5))) == [queue(0), queue(1), queue(2)]
    assert locks.lock("h", "two", [queue(0)]) == []
    # Held locks can still be renewed.
    assert locks.lock("g", "one", [queue(1)]) == [queue(1)]
    await clock.advance(61)
    locks.expire()
    assert locks.lock("h", "two", [queue(0)]) == [queue(0)]
