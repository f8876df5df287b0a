"""The simple consumer."""

import asyncio
from typing import Unpack

import pytest

from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.receipts import Receipt
from kerolox.client.consumer.simple import SimpleConsumer
from kerolox.client.consumer.subscriptions import Expression
from kerolox.client.errors import ClientError, NoRoute, WrongState
from kerolox.client.messages import Received
from kerolox.client.options import Shared
from kerolox.errors import AnswerError, ConfigurationError
from kerolox.testing import Cluster
from tests.client.consumer.consumers import numbered, sender
from tests.client.sessions import options


def consumer(
    cluster: Cluster, topics: str | dict[str, Expression] = "orders", **keywords: Unpack[Shared]
) -> SimpleConsumer:
    merged: Shared = {"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1", **keywords}
    return SimpleConsumer("group", topics=topics, consume_from=ConsumeFrom.FIRST_OFFSET, **merged)


async def some(simple: SimpleConsumer, invisible_seconds: float = 60) -> list[Received]:
    """Messages come again when the broker gets to it, which is not the moment at which their time is over."""
    for _ in range(10):
        if messages := await simple.receive(invisible_seconds=invisible_seconds, wait_seconds=5):
            return messages
    raise AssertionError("nothing came")


async def test_messages_are_received_and_acknowledged(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", *numbered(5))

        messages = await simple.receive(invisible_seconds=30)
        await simple.ack(*messages)

        assert sorted(message.body for message in messages) == numbered(5)
        assert [message.topic for message in messages] == ["orders"] * 5
        assert await simple.receive(wait_seconds=0) == []


async def test_what_is_not_acknowledged_comes_again_and_is_counted(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"lost", b"done")
        first = await some(simple, invisible_seconds=1)
        await simple.ack(*[message for message in first if message.body == b"done"])

        (again,) = await some(simple)

        assert (again.body, again.topic, again.reconsume_times) == (b"lost", "orders", 1)
        assert again.message_id == first[0].message_id
        await simple.ack(again)


async def test_a_message_may_be_put_back_sooner(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"body")
        (message,) = await simple.receive(invisible_seconds=300)

        await simple.change_invisible(message, 1)

        (again,) = await some(simple)
        await simple.ack(again)


async def test_a_message_stays_invisible_as_long_as_it_is_worked_on(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"body")
        (message,) = await simple.receive(invisible_seconds=0.4)
        first = message.receipt

        async with simple.renewing(message):
            async with asyncio.timeout(10):
                receipts = {first}
                while len(receipts) < 4:
                    receipts.add(message.receipt)
                    await asyncio.sleep(0.01)

        await simple.ack(message)
        assert Receipt.parse(message.receipt).pop_millis > Receipt.parse(first).pop_millis


async def test_who_waits_gets_what_is_sent_meanwhile(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"first")
        await simple.ack(*await simple.receive())
        waiting = asyncio.create_task(simple.receive(wait_seconds=30))
        await asyncio.sleep(0.05)

        await brokers.send("orders", b"second")

        async with asyncio.timeout(5):
            assert [message.body for message in await waiting] == [b"second"]


async def test_of_several_brokers_and_topics_any_may_have_something(two_brokers: Cluster) -> None:
    async with sender(two_brokers) as brokers:
        for broker in range(2):
            for topic in ("orders", "returns"):
                await brokers.send(topic, f"{topic} {broker}".encode(), broker=broker)
        async with consumer(two_brokers, {"orders": "*", "returns": "*"}) as simple:
            bodies: set[bytes] = set()
            while len(bodies) < 4:
                messages = await simple.receive(wait_seconds=5)
                bodies |= {message.body for message in messages}
                await simple.ack(*messages)
            waiting = asyncio.create_task(simple.receive(wait_seconds=30))
            await asyncio.sleep(0.05)

            await brokers.send("returns", b"later", broker=1)

            async with asyncio.timeout(5):
                (message,) = await waiting
            assert (message.body, message.topic, message.queue.broker_name) == (b"later", "returns", "broker-b")


async def test_members_share_what_there_is_without_queues_of_their_own(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as first, consumer(cluster) as second:
        await brokers.send("orders", *numbered(10))

        bodies: list[bytes] = []
        while len(bodies) < 10:
            for simple in (first, second):
                messages = await simple.receive(3, wait_seconds=1)
                bodies += [message.body for message in messages]
                await simple.ack(*messages)

        assert sorted(bodies) == numbered(10)


async def test_only_messages_with_these_tags_come(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, {"orders": "Aa"}) as simple:
        await brokers.send("orders", b"other", tag="TagB")
        await brokers.send("orders", b"same hash", tag="BB")
        await brokers.send("orders", b"right", tag="Aa")

        assert [message.body for message in await some(simple)] == [b"right"]


async def test_topics_may_be_wanted_later_and_no_longer(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"order")
        await brokers.send("returns", b"return")
        async with consumer(cluster) as simple:
            await simple.ack(*await simple.receive())

            await simple.subscribe("returns")
            (message,) = await some(simple)
            assert message.body == b"return"

            await simple.unsubscribe("returns")
            assert await simple.receive(wait_seconds=0) == []


async def test_a_namespace_is_not_to_be_seen(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, namespace="tenant") as simple:
        await brokers.send("tenant%orders", b"body")

        (message,) = await some(simple)
        await simple.ack(message)

        assert message.topic == "orders"


async def test_what_makes_no_sense_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="not at a time"):
        SimpleConsumer("group", topics="orders", consume_from=ConsumeFrom.TIMESTAMP, options=options(cluster))
    simple = consumer(cluster)
    with pytest.raises(WrongState):
        await simple.receive()
    async with simple:
        with pytest.raises(NoRoute, match="orders"):
            await simple.receive(wait_seconds=0)
    with pytest.raises(WrongState):
        await simple.receive()


async def test_a_receipt_of_nothing_is_refused(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"body")
        (message,) = await some(simple)
        receipt = message.receipt

        message.receipt = None
        with pytest.raises(ClientError, match="no receipt"):
            await simple.ack(message)
        message.receipt = str(receipt)[:-1] + "999"
        with pytest.raises(AnswerError):
            await simple.ack(message)
