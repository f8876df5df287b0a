"""Members of a group: how far they come, and what operators may ask of them."""

from pathlib import Path

from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.rebalance import MessageModel
from kerolox.client.consumer.results import Consumed
from kerolox.client.messages import Received
from kerolox.client.session import Session
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.offsets import ConsumerStatusTable
from kerolox.wire.bodies.running import ConsumerRunningInfo
from kerolox.wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from kerolox.wire.headers.offsets import GetConsumerStatus, ResetOffset
from tests.client.consumer.consumers import Noted, Sender, numbered, sender
from tests.client.sessions import options, session_of, until


def consumer(cluster: Cluster, handler: Noted, clock: ManualClock | None = None) -> PushConsumer:
    given = options(cluster) if clock is None else options(cluster, clock=clock)
    return PushConsumer("group", handler, topics="orders", consume_from=ConsumeFrom.FIRST_OFFSET, options=given)


async def test_offsets_are_committed_every_five_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        noted = Noted()
        async with consumer(cluster, noted, clock) as member:
            await until(lambda: 3 in member.status("orders").values())
            assert await brokers.committed("group", "orders") is None

            await clock.advance(5)

            await _until_committed(brokers, 3)


async def _until_committed(brokers: Sender, offset: int) -> None:
    for _ in range(1000):
        if await brokers.committed("group", "orders") == offset:
            return
    assert await brokers.committed("group", "orders") == offset


async def test_a_broker_that_was_restarted_is_read_again(tmp_path: Path) -> None:
    noted = Noted()
    async with Cluster(tmp_path) as cluster, sender(cluster) as brokers:
        await brokers.send("orders", b"before")
        async with consumer(cluster, noted) as member:
            await until(lambda: noted.bodies == [b"before"])

            # What a broker forgets when it is restarted: its connections, and whom it had heard of.
            for address in list(member._session._client._connections):
                member._session._client._connections[address].abort()

            await brokers.send("orders", b"after")
            await until(lambda: noted.bodies == [b"before", b"after"])


# Operators


async def _reset(session: Session, cluster: Cluster) -> None:
    request = ResetOffset(topic="orders", group="group", timestamp=0, is_force=True, queue_id=0, offset=1)
    await session.call(cluster.brokers[0].address, request, timeout_seconds=10)


async def test_a_group_that_is_set_back_consumes_again(cluster: Cluster) -> None:
    """Newer brokers tell it in the answer to a pull."""
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", *numbered(3))
        noted = Noted()
        async with consumer(cluster, noted) as member:
            await until(lambda: 3 in member.status("orders").values())

            await _reset(session, cluster)

            await until(lambda: noted.bodies[3:] == [b"1", b"2"])
        assert await brokers.committed("group", "orders") == 3


async def test_a_group_may_be_set_back_by_telling_its_members(tmp_path: Path) -> None:
    """Older brokers do, and have done so before they answer."""
    settings = {"useServerSideResetOffset": "false"}
    async with (
        Cluster(tmp_path, settings=settings) as cluster,
        sender(cluster) as brokers,
        session_of(options(cluster)) as session,
    ):
        for queue_id in range(4):
            await brokers.send("orders", b"0", b"1", queue_id=queue_id)
        noted = Noted()
        async with consumer(cluster, noted) as member:
            await until(lambda: sum(member.status("orders").values()) == 8)
            await member._persist()

            request = ResetOffset(topic="orders", group="group", timestamp=1, is_force=True)
            await session.call(cluster.brokers[0].address, request, timeout_seconds=10)

            await until(lambda: len(noted.bodies) == 16)


async def test_operators_are_told_what_is_in_hand(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", *numbered(3))
        noted = Noted()
        async with consumer(cluster, noted) as member:
            await until(lambda: 3 in member.status("orders").values())
            address = cluster.brokers[0].address
            client_id = member._session.client_id

            status = await session.call(address, GetConsumerStatus(topic="orders", group="group"), timeout_seconds=10)
            table = ConsumerStatusTable.decode(status.body).consumer_table
            assert max(table[client_id].values()) == 3

            request = GetConsumerRunningInfo(consumer_group="group", client_id=client_id, jstack_enable=True)
            info = ConsumerRunningInfo.decode((await session.call(address, request, timeout_seconds=10)).body)
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert {queue.topic for queue in info.mq_table} == {"orders", "%RETRY%group"}
            assert max(queue.commit_offset for queue in info.mq_table.values()) == 3
            assert info.status_table["orders"].consume_ok_tps > 0
            assert {wanted.topic for wanted in info.subscription_set} == {"orders", "%RETRY%group"}
            assert info.jstack is not None
            assert "MainThread" in info.jstack


async def test_an_operator_may_have_one_message_consumed(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        (sent,) = await brokers.send("orders", b"body")
        noted = Noted(None, None, Consumed.LATER, ValueError("broken"))
        async with consumer(cluster, noted) as member:
            await until(lambda: noted.bodies == [b"body"])
            request = ConsumeMessageDirectly(
                consumer_group="group", client_id=member._session.client_id, msg_id=sent.msg_id
            )
            results = [
                (await session.call(cluster.brokers[0].address, request, timeout_seconds=10)).body for _ in range(3)
            ]

    assert b'"consumeResult":"CR_SUCCESS"' in results[0]
    assert b'"consumeResult":"CR_LATER"' in results[1]
    assert b'"consumeResult":"CR_THROW_EXCEPTION"' in results[2]
    assert b"broken" in results[2]
    assert noted.bodies == [b"body"] * 4


async def test_a_member_that_reads_all_is_set_back_too(cluster: Cluster, tmp_path: Path) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        for queue_id in range(4):
            await brokers.send("orders", b"0", queue_id=queue_id)
        seen: list[Received] = []

        async def handle(messages: list[Received]) -> None:
            seen.extend(messages)

        async with PushConsumer(
            "group",
            handle,
            topics="orders",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=tmp_path / "offsets",
            options=options(cluster),
        ):
            await until(lambda: len(seen) == 4)

            request = ResetOffset(topic="orders", group="group", timestamp=1, is_force=True)
            await session.call(cluster.brokers[0].address, request, timeout_seconds=10)

            await until(lambda: len(seen) == 8)
