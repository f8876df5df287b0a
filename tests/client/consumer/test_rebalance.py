"""When it is computed which queues are ours."""

from collections.abc import Collection
from functools import partial

from kerolox.client.consumer.rebalance import INTERVAL_SECONDS, MessageModel, Rebalancer
from kerolox.client.session import Session
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import sender
from tests.client.sessions import NotedConsumer, options, session_of, until


class Applied:
    def __init__(self) -> None:
        self.shares: list[tuple[str, int]] = []
        self.is_balanced = True

    async def __call__(self, topic: str, share: Collection[MessageQueue]) -> bool:
        self.shares.append((topic, len(share)))
        return self.is_balanced


def _is_applied(applied: Applied, count: int) -> bool:
    return len(applied.shares) == count


async def joined(session: Session, *topics: str) -> None:
    session.add_consumer("group", NotedConsumer(*topics))
    for topic in topics:
        await session.routes.get(topic)
    await session.heartbeat()


async def test_it_is_computed_at_once_on_demand_and_every_twenty_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers, session_of(options(cluster, clock=clock)) as session:
        await brokers.send("orders", b"body")
        await joined(session, "orders")
        applied = Applied()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)
        rebalancer.start()
        await until(lambda: applied.shares == [("orders", 4)])

        rebalancer.soon()
        await until(lambda: len(applied.shares) == 2)

        await clock.advance(INTERVAL_SECONDS + 1)
        await until(lambda: len(applied.shares) == 3)
        await rebalancer.stop()


async def test_what_could_not_be_had_is_asked_for_soon_and_then_ever_more_rarely(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers, session_of(options(cluster, clock=clock)) as session:
        await brokers.send("orders", b"body")
        await joined(session, "orders")
        applied = Applied()
        applied.is_balanced = False
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)
        rebalancer.start()
        for count in range(1, 5):
            await until(partial(_is_applied, applied, count))
            await clock.advance(0.5 * 2**count + 0.01)
        await rebalancer.stop()


async def test_who_reads_all_asks_nobody(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", b"body")
        applied = Applied()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied, model=MessageModel.BROADCASTING)

        assert await rebalancer.rebalance()

        assert applied.shares == [("orders", 4)]


async def test_while_it_is_not_counted_a_member_keeps_what_it_has(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", b"body")
        applied = Applied()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)

        assert not await rebalancer.rebalance()
        assert applied.shares == []

        await joined(session, "orders")
        assert await rebalancer.rebalance()
        assert applied.shares == [("orders", 4)]


async def test_a_topic_that_is_not_there_is_not_balanced(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        applied = Applied()

        assert not await Rebalancer(session, "group", lambda: ["nowhere"], applied).rebalance()

        assert applied.shares == []
