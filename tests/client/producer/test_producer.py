"""The producer against real servers."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from kerolox.client.errors import GroupTaken, SendFailed, WrongState
from kerolox.client.messages import Message, SendResult, SendStatus
from kerolox.client.options import Options
from kerolox.client.producer.producer import Producer
from kerolox.errors import ConfigurationError, KeroloxError, NoPermission, TopicNotFound
from kerolox.message import property_names, sysflag
from kerolox.message.compression import decompress
from kerolox.message.errors import MessageIllegal
from kerolox.message.sysflag import CompressionType
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.brokers import ScriptedCluster
from tests.client.producer.producing import producing, stored, stored_bodies
from tests.client.sessions import until


async def test_a_message_is_stored_with_all_its_fields(cluster: Cluster) -> None:
    message = Message("orders", b"body", tag="paid", keys=("k1", "k2"), properties={"color": "red"}, flag=7)

    async with producing(cluster) as producer:
        result = await producer.send(message)

    (record,) = stored(cluster.brokers[0], "orders")
    assert (record.topic, record.body, record.tags, record.keys, record.flag) == (
        "orders", b"body", "paid", ["k1", "k2"], 7,
    )  # fmt: skip
    assert record.get("color") == "red"
    assert record.message_id == result.message_id
    assert record.offset_id == result.offset_id
    assert result.queue == MessageQueue("broker-a", record.queue_id, "orders")
    assert (result.status, result.queue_offset, result.region_id, result.is_traced) == (
        SendStatus.OK, record.queue_offset, "DefaultRegion", True,
    )  # fmt: skip


async def test_the_first_message_creates_an_unknown_topic(cluster: Cluster) -> None:
    async with producing(cluster, default_topic_queue_nums=2) as producer:
        assert len(await producer.queues("fresh")) == 2
        await producer.send(Message("fresh", b"first"))

    made = cluster.brokers[0].topics.get("fresh")
    assert made is not None
    assert made.write_queue_nums == 2


async def test_an_unknown_topic_raises_topic_not_found_without_auto_creation(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"autoCreateTopicEnable": "false"}
    async with Cluster(tmp_path_factory.mktemp("c"), settings=settings) as cluster, producing(cluster) as producer:
        with pytest.raises(TopicNotFound, match="'nowhere' does not exist"):
            await producer.send(Message("nowhere", b"body"))


async def test_messages_go_round_robin_to_all_queues(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        results = [await producer.send(Message("orders", b"body")) for _ in range(8)]

    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_hundreds_of_tasks_send_concurrently(two_brokers: Cluster) -> None:
    # A busy disk may take seconds.
    async with producing(two_brokers, send_timeout_seconds=60) as producer:
        bodies = [b"%04d" % number for number in range(500)]
        results = await asyncio.gather(*(producer.send(Message("orders", body)) for body in bodies))

    assert len({result.message_id for result in results}) == 500
    assert stored_bodies(two_brokers, "orders") == bodies


async def test_sends_beyond_the_in_flight_limit_wait(scripted: ScriptedCluster) -> None:
    """Thousand of concurrent sends do not time out while they wait for each other."""
    async with (
        scripted.broker("a") as a,
        producing(scripted, sends_in_flight_max=10, send_timeout_seconds=60) as producer,
    ):
        a.is_silent = True
        sending = [asyncio.create_task(producer.send(Message("orders", b"body"))) for _ in range(100)]
        await until(lambda: len(a.sent) == 10)
        for _ in range(10):
            await asyncio.sleep(0)

        assert len(a.sent) == 10
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


async def test_a_loop_of_oneway_sends_yields_to_other_tasks(cluster: Cluster) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with producing(cluster) as producer:
        await producer.send(Message("orders", b"body"))
        counting = asyncio.create_task(count_turns())
        await asyncio.sleep(0)
        for _ in range(1000):
            await producer.send_oneway(Message("orders", b"b" * 1000))
        counting.cancel()

    assert turns > 10


async def test_messages_with_one_order_by_go_to_one_queue(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        results = [await producer.send(Message("orders", b"%d" % number), order_by="order-17") for number in range(5)]

    assert len({result.queue for result in results}) == 1
    assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4]


async def test_a_selector_picks_the_queue_by_the_message(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        result = await producer.send(Message("orders", b"3"), selector=lambda queues, it: queues[int(it.body)])

    assert result.queue.queue_id == 3


async def test_a_queue_may_be_given(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        queue = (await producer.queues("orders"))[2]
        assert (await producer.send(Message("orders", b"body"), queue=queue)).queue == queue

        with pytest.raises(MessageIllegal, match="to a queue of topic 'orders'"):
            await producer.send(Message("others", b"body"), queue=queue)
        with pytest.raises(MessageIllegal, match="at most one"):
            await producer.send(Message("orders", b"body"), queue=queue, order_by=1)


async def test_oneway_messages_arrive(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        await producer.send_oneway(Message("orders", b"one"))
        await producer.send_oneway([Message("orders", b"two"), Message("orders", b"two")])

        await until(lambda: len(stored_bodies(cluster, "orders")) == 3)


async def test_a_list_is_sent_as_one_batch_to_one_queue(cluster: Cluster) -> None:
    messages = [Message("orders", b"%d" % number, keys=(f"k{number}",)) for number in range(3)]

    async with producing(cluster) as producer:
        result = await producer.send(messages)

    records = stored(cluster.brokers[0], "orders")
    assert [(record.body, record.keys, record.queue_offset) for record in records] == [
        (b"0", ["k0"], 0), (b"1", ["k1"], 1), (b"2", ["k2"], 2),
    ]  # fmt: skip
    assert result.message_ids == [record.message_id for record in records]
    assert result.offset_ids == [record.offset_id for record in records]


@pytest.mark.parametrize("kind", list(CompressionType))
@pytest.mark.parametrize("size", [4096, 100_000])
async def test_large_bodies_are_compressed(cluster: Cluster, kind: CompressionType, size: int) -> None:
    body = b"ab" * (size // 2)

    async with producing(cluster, compress_type=kind) as producer:
        await producer.send(Message("orders", body))

    (record,) = stored(cluster.brokers[0], "orders")
    assert len(record.body) < 1000
    assert sysflag.compression_type(record.sys_flag) is kind
    assert decompress(record.body, record.sys_flag, size) == body


async def test_small_bodies_are_not_compressed(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        await producer.send(Message("orders", b"a" * 4095))

    assert stored_bodies(cluster, "orders") == [b"a" * 4095]


async def test_a_delayed_message_goes_to_the_schedule_topic(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        await producer.send(Message("orders", b"later", delay_level=3))

    assert stored_bodies(cluster, "orders") == []
    (record,) = stored(cluster.brokers[0], "SCHEDULE_TOPIC_XXXX")
    assert record.get(property_names.REAL_TOPIC) == "orders"


@pytest.fixture
async def recalling(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    settings = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
    async with Cluster(tmp_path_factory.mktemp("c"), settings=settings) as cluster:
        yield cluster


async def test_a_timed_message_can_be_recalled(recalling: Cluster) -> None:
    async with producing(recalling) as producer:
        await producer.send(Message("orders", b"now"))
        in_an_hour = datetime.now(UTC) + timedelta(hours=1)
        for message in (
            Message("orders", b"later", delay_seconds=3600),
            Message("orders", b"later", deliver_at=in_an_hour),
        ):
            result = await producer.send(message)
            assert result.recall_handle is not None

            assert await producer.recall("orders", result.recall_handle) == result.message_id

    assert stored_bodies(recalling, "orders") == [b"now"]


async def test_a_refused_recall_raises(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        await producer.send(Message("orders", b"now"))
        result = await producer.send(Message("orders", b"later", delay_seconds=3600))
        assert result.recall_handle is not None

        with pytest.raises(NoPermission):
            await producer.recall("orders", result.recall_handle)


async def test_brokers_see_the_namespace_and_users_do_not(cluster: Cluster) -> None:
    async with producing(cluster, namespace="ns") as producer:
        result = await producer.send(Message("orders", b"body"))
        await until(lambda: set(cluster.brokers[0].clients.producers) == {"ns%shop"})

    (record,) = stored(cluster.brokers[0], "ns%orders")
    assert record.get(property_names.INSTANCE_ID) == "ns"
    assert result.queue.topic == "orders"


async def test_a_producer_is_used_between_start_and_close(cluster: Cluster) -> None:
    producer = Producer("shop", namesrv_addr=cluster.namesrv_addr)
    with pytest.raises(WrongState, match="producer of group 'shop' has not been started"):
        await producer.send(Message("orders", b"body"))

    await producer.start()
    with pytest.raises(WrongState, match="has been started"):
        await producer.start()
    await producer.close()
    await producer.close()

    with pytest.raises(WrongState, match="has been closed"):
        await producer.send(Message("orders", b"body"))
    with pytest.raises(WrongState, match="create a new one"):
        await producer.start()


async def test_close_waits_for_sends_in_flight(cluster: Cluster) -> None:
    async with producing(cluster, sends_in_flight_max=10) as producer:
        sending = [asyncio.create_task(producer.send(Message("orders", b"body"))) for _ in range(100)]
        await asyncio.sleep(0)

    assert all(result.status is SendStatus.OK for result in await asyncio.gather(*sending))


async def test_close_waits_at_most_the_send_timeout(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a", None) as a:
        async with producing(scripted, send_timeout_seconds=0.2) as producer:
            sending = asyncio.create_task(producer.send(Message("orders", b"body"), timeout_seconds=60))
            await until(lambda: a.sent)

        with pytest.raises(KeroloxError):
            async with asyncio.timeout(20):
                await sending


async def test_two_producers_of_one_group_need_two_client_ids(cluster: Cluster) -> None:
    shared = Options(namesrv_addr=cluster.namesrv_addr)
    async with Producer("shop", options=shared), Producer("other", options=shared):
        with pytest.raises(GroupTaken):
            await Producer("shop", options=shared).start()
        async with producing(cluster):
            pass


async def test_brokers_know_a_producer_until_it_closes(cluster: Cluster) -> None:
    clients = cluster.brokers[0].clients
    async with producing(cluster) as producer:
        await producer.send(Message("orders", b"body"))
        await until(lambda: set(clients.producers) == {"shop"})

    await until(lambda: not clients.producers)


async def test_the_error_contains_the_reason_of_the_broker(cluster: Cluster) -> None:
    cluster.brokers[0].topics.create("narrow", 1)
    async with producing(cluster) as producer:
        await create_topic(producer, "narrow")
        with pytest.raises(SendFailed, match=r"topic 'narrow' failed after 1 attempt .*broker-a") as failed:
            await producer.send(Message("narrow", b"body"), queue=MessageQueue("broker-a", 9, "narrow"))

    assert failed.value.__cause__ is failed.value.cause


async def create_topic(producer: Producer, topic: str) -> SendResult:
    return await producer.send(Message(topic, b"creates the topic"))


async def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="send_timeout_seconds=0"):
        Producer("shop", namesrv_addr="a:1", send_timeout_seconds=0)
    with pytest.raises(ConfigurationError, match="group"):
        Producer("no group", namesrv_addr="a:1")
