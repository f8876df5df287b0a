"""Heartbeats and queue locks, over a real socket."""

import pytest

from kerolox.broker.errors import InvalidParameter
from kerolox.wire.bodies.clients import ConsumerData, HeartbeatData, LockBatch, LockedQueues, SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.clients import HeartBeat, LockBatchMq, UnlockBatchMq
from tests.broker.brokers import BrokerFixture

LONG = "x" * 256
RETRY = "%RETRY%" + "x" * 255


def queue(number: int, topic: str = "orders", broker_name: str = "broker-a") -> MessageQueue:
    return MessageQueue(broker_name, number, topic)


def batch(client_id: str, *queues: MessageQueue, group: str = "group") -> bytes:
    return LockBatch(client_id=client_id, consumer_group=group, mq_set=list(queues)).encode()


async def lock(broker: BrokerFixture, client_id: str, *queues: MessageQueue) -> list[MessageQueue]:
    reply = await broker.call(LockBatchMq(), batch(client_id, *queues))
    return sorted(LockedQueues.decode(reply.body).lock_ok_mq_set)


async def test_queues_are_locked_for_one_client_until_it_unlocks_them(broker: BrokerFixture) -> None:
    assert await lock(broker, "one", queue(0), queue(1)) == [queue(0), queue(1)]
    # Renewed by the owner, refused to another client.
    assert await lock(broker, "one", queue(0)) == [queue(0)]
    assert await lock(broker, "two", queue(0), queue(2)) == [queue(2)]

    # A client cannot unlock the queue of another one.
    reply = await broker.call(UnlockBatchMq(), batch("two", queue(0), queue(1)))
    assert (reply.code, reply.body) == (0, b"")
    assert await lock(broker, "two", queue(0), queue(1)) == []

    await broker.call(UnlockBatchMq(), batch("one", queue(0), queue(1)))
    assert await lock(broker, "two", queue(0), queue(1)) == [queue(0), queue(1)]


async def test_the_response_to_a_lock_has_the_format_of_java(broker: BrokerFixture) -> None:
    reply = await broker.call(LockBatchMq(), batch("one", queue(3)))

    assert bytes(reply.body) == b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":3,"topic":"orders"}]}'


@pytest.mark.parametrize(
    "body",
    [
        batch(LONG, queue(0)),
        batch("one", queue(0), group=LONG),
        batch("one", queue(0), queue(1, LONG)),
        batch("one", queue(0), queue(1, broker_name=LONG)),
    ],
)
async def test_locks_of_long_names_are_refused(broker: BrokerFixture, body: bytes) -> None:
    with pytest.raises(InvalidParameter, match="of 256 characters, at most 255 allowed"):
        await broker.call(LockBatchMq(), body)

    assert await lock(broker, "two", queue(0)) == [queue(0)]
    assert await lock(broker, "two", queue(0, RETRY)) == [queue(0, RETRY)]


def heartbeat(client_id: str = "c", group: str = "group", topic: str = "orders", model: str = "CLUSTERING") -> bytes:
    consumer = ConsumerData(
        group_name=group,
        message_model=model,
        subscription_data_set=[SubscriptionData(topic="bills"), SubscriptionData(topic=topic)],
    )
    return HeartbeatData(client_id=client_id, consumer_data_set=[consumer]).encode()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (heartbeat(LONG), "client id"),
        (heartbeat(group=LONG), "consumer group"),
        (heartbeat(topic=LONG), "topic"),
        (heartbeat(model=LONG), "consume option"),
    ],
)
async def test_a_heartbeat_with_a_long_name_is_refused_and_changes_nothing(
    broker: BrokerFixture, body: bytes, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidParameter, match=f"{what} of 256 characters, at most 255 allowed"):
        await broker.call(HeartBeat(), body)

    assert broker.broker.clients.consumers == {}
    assert LONG not in caplog.text


async def test_a_producer_with_a_long_name_is_refused(broker: BrokerFixture) -> None:
    with pytest.raises(InvalidParameter, match="producer group of 256 characters, at most 255 allowed"):
        await broker.heartbeat(produces=("short", LONG))
    assert broker.broker.clients.producers == {}

    await broker.heartbeat("10.0.0.1@4711#1234567890123456", produces=("x" * 255,), consumes={"group": [RETRY]})
    assert list(broker.broker.clients.producers) == ["x" * 255]


async def test_many_queues_are_locked_at_once_and_too_many_are_refused(broker: BrokerFixture) -> None:
    queues = [queue(number) for number in range(10_001)]

    assert await lock(broker, "one", *queues[:10_000]) == queues[:10_000]
    for request in (LockBatchMq(), UnlockBatchMq()):
        with pytest.raises(InvalidParameter, match="10001 queues in one request, at most 10000 allowed"):
            await broker.call(request, batch("one", *queues))


async def test_a_heartbeat_with_many_groups_and_subscriptions_is_accepted(broker: BrokerFixture) -> None:
    """It is handled in portions, and the response is sent after the last one."""
    consumes = {f"group-{number}": [f"topic-{topic}" for topic in range(30)] for number in range(200)}
    produces = tuple(f"producers-{number}" for number in range(200))

    await broker.heartbeat("c", consumes=consumes, produces=produces)

    found = {name: list(group.subscriptions) for name, group in broker.broker.clients.consumers.items()}
    assert found == consumes
    assert list(broker.broker.clients.producers) == list(produces)


async def test_a_long_heartbeat_with_a_bad_name_changes_nothing(broker: BrokerFixture) -> None:
    consumes = {f"group-{number}": ["orders"] for number in range(200)} | {LONG: ["orders"]}

    with pytest.raises(InvalidParameter, match="consumer group of 256 characters"):
        await broker.heartbeat("c", consumes=consumes)

    assert broker.broker.clients.consumers == {}


async def test_a_group_with_too_many_subscriptions_is_refused(broker: BrokerFixture) -> None:
    with pytest.raises(InvalidParameter, match="5001 subscriptions of a group, at most 5000 allowed"):
        await broker.heartbeat("c", consumes={"group": [f"topic-{topic}" for topic in range(5001)]})
