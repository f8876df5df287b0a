"""Locks of queues."""

from kerolox.client.consumer.group.queue_locks import LIVE_SECONDS, QueueLocks
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import sender
from tests.client.consumer.fake_brokers import FakeBrokers
from tests.client.sessions import options, session_of

QUEUES = [MessageQueue("broker-a", queue_id, "orders") for queue_id in range(3)]


async def test_a_locked_queue_is_refused_to_others_until_it_is_unlocked(cluster: Cluster) -> None:
    async with (
        sender(cluster) as brokers,
        session_of(options(cluster)) as one,
        session_of(options(cluster)) as other,
    ):
        await brokers.send("orders", b"body")
        for session in (one, other):
            await session.routes.get("orders")
        first, second = (QueueLocks(session, "group", ManualClock()) for session in (one, other))

        assert await first.lock(QUEUES[:2]) == set(QUEUES[:2])
        assert await second.lock(QUEUES) == {QUEUES[2]}
        assert first.is_locked(QUEUES[0])
        assert not second.is_locked(QUEUES[0])

        await first.unlock(QUEUES[:1])
        assert not first.is_locked(QUEUES[0])
        assert await second.lock(QUEUES) == {QUEUES[0], QUEUES[2]}


async def test_a_lock_expires_locally_after_thirty_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", b"body")
        await session.routes.get("orders")
        locks = QueueLocks(session, "group", clock)
        await locks.lock(QUEUES)

        await clock.advance(LIVE_SECONDS - 1)
        assert locks.is_locked(QUEUES[0])
        await clock.advance(2)
        assert not locks.is_locked(QUEUES[0])


async def test_an_unreachable_broker_locks_nothing_and_keeps_old_locks() -> None:
    brokers = FakeBrokers()
    brokers.addresses["broker-a"] = "nowhere:1"
    locks = QueueLocks(brokers, "group", ManualClock())
    locks._locked[QUEUES[0]] = locks._clock.monotonic()
    brokers.addresses.clear()

    assert await locks.lock(QUEUES) == set()

    assert locks.is_locked(QUEUES[0])
    await locks.unlock(QUEUES)
    assert not locks.is_locked(QUEUES[0])
