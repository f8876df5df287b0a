"""Rebalancing."""

from collections.abc import Collection
from functools import partial

from kerolox.client.consumer.group.rebalance import INTERVAL_SECONDS, MessageModel, Rebalancer
from kerolox.client.session.session import Session
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import sender
from tests.client.sessions import RecordingConsumer, options, session_of, until


class RecordingApply:
    def __init__(self) -> None:
        self.shares: list[tuple[str, int]] = []
        self.is_balanced = True

    async def __call__(self, topic: str, share: Collection[MessageQueue]) -> bool:
        self.shares.append((topic, len(share)))
        return self.is_balanced


def _is_applied(applied: RecordingApply, count: int) -> bool:
    return len(applied.shares) == count


async def join(session: Session, *topics: str) -> None:
    session.add_consumer("group", RecordingConsumer(*topics))
    for topic in topics:
        await session.routes.get(topic)
    await session.heartbeat()


async def test_rebalance_runs_at_the_start_on_request_and_every_twenty_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers, session_of(options(cluster, clock=clock)) as session:
        await brokers.send("orders", b"body")
        await join(session, "orders")
        applied = RecordingApply()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)
        rebalancer.start()
        await until(lambda: applied.shares == [("orders", 4)])

        rebalancer.request()
        await until(lambda: len(applied.shares) == 2)

        await clock.advance(INTERVAL_SECONDS + 1)
        await until(lambda: len(applied.shares) == 3)
        await rebalancer.stop()


async def test_an_unbalanced_group_is_retried_with_backoff(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers, session_of(options(cluster, clock=clock)) as session:
        await brokers.send("orders", b"body")
        await join(session, "orders")
        applied = RecordingApply()
        applied.is_balanced = False
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)
        rebalancer.start()
        for count in range(1, 5):
            await until(partial(_is_applied, applied, count))
            await clock.advance(0.5 * 2**count + 0.01)
        await rebalancer.stop()


async def test_broadcasting_does_not_query_the_members(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", b"body")
        applied = RecordingApply()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied, model=MessageModel.BROADCASTING)

        assert await rebalancer.rebalance()

        assert applied.shares == [("orders", 4)]


async def test_a_client_that_is_not_yet_a_member_keeps_its_queues(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", b"body")
        applied = RecordingApply()
        rebalancer = Rebalancer(session, "group", lambda: ["orders"], applied)

        assert not await rebalancer.rebalance()
        assert applied.shares == []

        await join(session, "orders")
        assert await rebalancer.rebalance()
        assert applied.shares == [("orders", 4)]


async def test_a_missing_topic_is_not_balanced(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        applied = RecordingApply()

        assert not await Rebalancer(session, "group", lambda: ["nowhere"], applied).rebalance()

        assert applied.shares == []
