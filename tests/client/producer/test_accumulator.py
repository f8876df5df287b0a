"""Automatic batching."""

import asyncio
from typing import Any

import pytest

from kerolox.client.errors import SendFailed
from kerolox.client.messages import Message, SendResult, SendStatus
from kerolox.client.producer.accumulator import split_result
from kerolox.message.errors import MessageIllegal
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.brokers import TOPIC, ScriptedCluster
from tests.client.producer.producing import producing, stored, stored_bodies


async def test_sends_of_one_loop_iteration_form_one_batch(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted, auto_batch=True) as producer:
        await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number)) for number in range(10)))

        assert len(a.sent) == 1
        assert a.sent[0].batch


async def test_each_message_gets_its_own_result(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True) as producer:
        messages = [Message("orders", b"%02d" % number, keys=(str(number),)) for number in range(10)]
        results = await asyncio.gather(*map(producer.send, messages))

    records = {record.message_id: record for record in stored(cluster.brokers[0], "orders")}
    for message, result in zip(messages, results, strict=True):
        record = records[result.message_id]
        assert record.body == message.body
        assert (record.offset_id, record.queue_offset, record.queue_id) == (
            result.offset_id, result.queue_offset, result.queue.queue_id,
        )  # fmt: skip


async def test_a_single_message_is_not_sent_as_a_batch(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted, auto_batch=True, linger_seconds=0.001) as producer:
        await producer.send(Message(TOPIC, b"body"))

    assert not a.sent[0].batch


@pytest.mark.parametrize("bound", [{"batch_count_max": 4}, {"batch_size_max": 700}])
async def test_a_full_batch_is_sent_at_once(scripted: ScriptedCluster, bound: dict[str, object]) -> None:
    given: dict[str, object] = {"auto_batch": True, "linger_seconds": 60, **bound}
    async with scripted.broker("a") as a, producing(scripted, "shop", **given) as producer:
        async with asyncio.timeout(20):
            await asyncio.gather(*(producer.send(Message(TOPIC, b"b" * 128)) for _ in range(4)))

    assert len(a.sent) == 1


async def test_close_sends_the_collected_messages(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True, linger_seconds=60) as producer:
        sending = [asyncio.create_task(producer.send(Message("orders", b"%d" % number))) for number in range(3)]
        await asyncio.sleep(0)

    assert len(await asyncio.gather(*sending)) == 3
    assert stored_bodies(cluster, "orders") == [b"0", b"1", b"2"]


async def test_messages_with_one_order_by_stay_in_one_queue_and_in_order(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True) as producer:
        sends = [
            producer.send(Message("orders", b"%d-%02d" % (order, number)), order_by=order)
            for number in range(20)
            for order in range(3)
        ]
        results = await asyncio.gather(*sends)

    for order in range(3):
        mine = results[order::3]
        assert len({result.queue for result in mine}) == 1
        assert [result.queue_offset for result in mine] == sorted(result.queue_offset for result in mine)


async def test_a_batch_has_one_topic(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted, auto_batch=True) as producer:
        await asyncio.gather(*(producer.send(Message(topic, b"b")) for topic in (TOPIC, "TBW102") for _ in range(2)))

    assert sorted(sent.topic for sent in a.sent) == ["TBW102", TOPIC]


async def test_delayed_messages_are_not_batched(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True) as producer:
        await asyncio.gather(*(producer.send(Message("orders", b"later", delay_level=3)) for _ in range(2)))

    assert len(stored(cluster.brokers[0], "SCHEDULE_TOPIC_XXXX")) == 2


async def test_messages_with_their_own_timeout_are_not_batched(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted, auto_batch=True) as producer:
        await asyncio.gather(*(producer.send(Message(TOPIC, b"b"), timeout_seconds=30) for _ in range(2)))

    assert [sent.batch for sent in a.sent] == [False, False]


async def test_a_failed_batch_fails_all_its_messages(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a", 13, 13), producing(scripted, auto_batch=True) as producer:
        sends = (producer.send(Message(TOPIC, b"b")) for _ in range(3))
        results = await asyncio.gather(*sends, return_exceptions=True)

    assert [type(result) for result in results] == [SendFailed] * 3


async def test_an_invalid_message_fails_alone(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True) as producer:
        bodies: tuple[Any, ...] = (b"good", None, b"good as well")
        results = await asyncio.gather(
            *(producer.send(Message("orders", body)) for body in bodies), return_exceptions=True
        )

    assert isinstance(results[1], MessageIllegal)
    assert stored_bodies(cluster, "orders") == [b"good", b"good as well"]


async def test_large_messages_are_not_batched_but_compressed(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True) as producer:
        await asyncio.gather(*(producer.send(Message("orders", b"b" * 5000)) for _ in range(2)))

    assert all(len(body) < 100 for body in stored_bodies(cluster, "orders"))


async def test_cancelling_one_send_leaves_the_rest_of_the_batch(cluster: Cluster) -> None:
    async with producing(cluster, auto_batch=True, linger_seconds=0.01) as producer:
        leaving = asyncio.create_task(producer.send(Message("orders", b"leaves")))
        staying = asyncio.create_task(producer.send(Message("orders", b"stays")))
        await asyncio.sleep(0)
        leaving.cancel()

        assert (await staying).status is SendStatus.OK


def test_a_batch_stored_as_one_record_has_one_offset_id() -> None:
    result = SendResult(SendStatus.OK, "A,B", "ONE", MessageQueue("a", 0, "t"), 7)

    assert [(own.message_id, own.offset_id, own.queue_offset) for own in split_result(result)] == [
        ("A", "ONE", 7),
        ("B", "ONE", 8),
    ]
