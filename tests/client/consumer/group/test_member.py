"""Members of a group: commits, offset resets, running info and failures."""

import asyncio
from pathlib import Path

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.rebalance import MessageModel
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.statistics import SAMPLE_SECONDS
from kerolox.client.messages import Received
from kerolox.client.producer.producer import Producer
from kerolox.client.session.session import Session
from kerolox.errors import ServiceFailed
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.offsets import ConsumerStatusTable
from kerolox.wire.bodies.running import ConsumerRunningInfo
from kerolox.wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from kerolox.wire.headers.offsets import GetConsumerStatus, ResetOffset
from tests.client.consumer.consumers import RecordingHandler, Sender, numbered, sender
from tests.client.sessions import options, session_of, until


def consumer(cluster: Cluster, handler: RecordingHandler, clock: ManualClock | None = None) -> PushConsumer:
    given = options(cluster) if clock is None else options(cluster, clock=clock)
    return PushConsumer("group", handler, topics="orders", consume_from=ConsumeFrom.FIRST_OFFSET, options=given)


async def test_offsets_are_committed_every_five_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        recorder = RecordingHandler()
        async with consumer(cluster, recorder, clock) as member:
            await until(lambda: 3 in member.status("orders").values())
            assert await brokers.committed("group", "orders") is None

            await clock.advance(5)

            await _until_committed(brokers, 3)


async def _until_committed(brokers: Sender, offset: int) -> None:
    for _ in range(1000):
        if await brokers.committed("group", "orders") == offset:
            return
    assert await brokers.committed("group", "orders") == offset


async def test_a_restarted_broker_is_read_again(tmp_path: Path) -> None:
    recorder = RecordingHandler()
    async with Cluster(tmp_path) as cluster, sender(cluster) as brokers:
        await brokers.send("orders", b"before")
        async with consumer(cluster, recorder) as member:
            await until(lambda: recorder.bodies == [b"before"])

            # A restarted broker has lost its connections and its registered clients.
            for address in list(member._session._client._connections):
                member._session._client._connections[address].abort()

            await brokers.send("orders", b"after")
            await until(lambda: recorder.bodies == [b"before", b"after"])


# Operators


async def _reset(session: Session, cluster: Cluster) -> None:
    request = ResetOffset(topic="orders", group="group", timestamp=0, is_force=True, queue_id=0, offset=1)
    await session.call(cluster.brokers[0].address, request, timeout_seconds=10)


async def test_an_offset_reset_in_the_pull_response_is_applied(cluster: Cluster) -> None:
    """Newer brokers reset in the response to a pull."""
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", *numbered(3))
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as member:
            await until(lambda: 3 in member.status("orders").values())

            await _reset(session, cluster)

            await until(lambda: recorder.bodies[3:] == [b"1", b"2"])
        assert await brokers.committed("group", "orders") == 3


async def test_an_offset_reset_request_to_members_is_applied(tmp_path: Path) -> None:
    """Older brokers send a request to the members before they respond to the operator."""
    settings = {"useServerSideResetOffset": "false"}
    async with (
        Cluster(tmp_path, settings=settings) as cluster,
        sender(cluster) as brokers,
        session_of(options(cluster)) as session,
    ):
        for queue_id in range(4):
            await brokers.send("orders", b"0", b"1", queue_id=queue_id)
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as member:
            await until(lambda: sum(member.status("orders").values()) == 8)
            await member._persist()

            request = ResetOffset(topic="orders", group="group", timestamp=1, is_force=True)
            await session.call(cluster.brokers[0].address, request, timeout_seconds=10)

            await until(lambda: len(recorder.bodies) == 16)


async def test_running_info_shows_unconsumed_messages(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        await brokers.send("orders", *numbered(3))
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as member:
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


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_running_info_shows_when_a_queue_was_last_consumed(cluster: Cluster, is_orderly: bool) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        recorder = RecordingHandler()
        given = options(cluster, clock=clock)
        consuming = PushConsumer(
            "group",
            recorder,
            topics="orders",
            is_orderly=is_orderly,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=given,
        )
        async with consuming as member:
            await until(lambda: recorder.bodies == [b"first"])
            await clock.advance(90)
            await brokers.send("orders", b"second")
            await until(lambda: 2 in member.status("orders").values())

            info = member.running_info(has_stacks=False)
            assert _last_consumed(info, "orders") == clock.millis()


async def test_running_info_shows_when_a_pull_consumer_last_returned_messages(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        given = options(cluster, clock=clock)
        async with PullConsumer(
            "group", topics="orders", consume_from=ConsumeFrom.FIRST_OFFSET, options=given
        ) as member:
            await until(lambda: member.running_info(has_stacks=False).mq_table)
            await clock.advance(90)

            assert [message.body for message in await member.poll(timeout_seconds=10)] == [b"first"]
            assert _last_consumed(member.running_info(has_stacks=False), "orders") == clock.millis()


def _last_consumed(info: ConsumerRunningInfo, topic: str) -> int:
    return max(it.last_consume_timestamp for queue, it in info.mq_table.items() if queue.topic == topic)


async def test_consume_message_directly_calls_the_handler(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, session_of(options(cluster)) as session:
        (sent,) = await brokers.send("orders", b"body")
        recorder = RecordingHandler(None, None, Consumed.LATER, ValueError("broken"))
        async with consumer(cluster, recorder) as member:
            await until(lambda: recorder.bodies == [b"body"])
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
    assert recorder.bodies == [b"body"] * 4


async def test_an_offset_reset_applies_to_broadcasting_consumers(cluster: Cluster, tmp_path: Path) -> None:
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


class StoppedClock(SystemClock):
    """A clock on which sleeping for a certain time fails, and so does the service that sleeps."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def sleep(self, seconds: float) -> None:
        if seconds == self.seconds:
            raise RuntimeError("the clock has stopped")
        await super().sleep(seconds)


async def test_a_failed_service_cancels_the_body_of_async_with(cluster: Cluster) -> None:
    given = options(cluster, clock=StoppedClock(SAMPLE_SECONDS))

    with pytest.raises(ServiceFailed, match="periodic job 'statistics' failed: RuntimeError: the clock has stopped"):
        async with asyncio.timeout(10), PullConsumer("group", topics="orders", options=given):
            await asyncio.Event().wait()


async def test_closed_raises_the_failure_of_a_service(cluster: Cluster) -> None:
    consumer = PullConsumer("group", topics="orders", options=options(cluster, clock=StoppedClock(SAMPLE_SECONDS)))
    await consumer.start()

    with pytest.raises(ServiceFailed, match="periodic job 'statistics' failed"):
        await consumer.closed()

    await consumer.close()


async def test_the_last_release_raises_the_failure_of_a_session_service(cluster: Cluster) -> None:
    producer = Producer("group", options=options(cluster, clock=StoppedClock(1)))
    await producer.start()

    with pytest.raises(ServiceFailed, match="periodic job 'heartbeat' failed: RuntimeError: the clock has stopped"):
        await producer.close()
