"""The simple consumer."""

import asyncio

import pytest

from kerolox.client.consumer.fetch.receipt_handle import ReceiptHandle
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.simple import SimpleConsumer
from kerolox.client.errors import ClientError, NoRoute, WrongState
from kerolox.errors import AnswerError, ConfigurationError
from kerolox.testing import Cluster
from tests.client.consumer.consumers import numbered, sender
from tests.client.consumer.poppers import consumer, receive_some
from tests.client.sessions import options


async def test_messages_are_received_and_acknowledged(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", *numbered(5))

        messages = await simple.receive(invisible_seconds=30)
        await simple.ack(*messages)

        assert sorted(message.body for message in messages) == numbered(5)
        assert [message.topic for message in messages] == ["orders"] * 5
        assert await simple.receive(wait_seconds=0) == []


async def test_an_unacknowledged_message_is_redelivered_and_counted(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"lost", b"done")
        first = await receive_some(simple, invisible_seconds=1)
        await simple.ack(*[message for message in first if message.body == b"done"])

        (again,) = await receive_some(simple)

        assert (again.body, again.topic, again.reconsume_times) == (b"lost", "orders", 1)
        assert again.message_id == first[0].message_id
        await simple.ack(again)


async def test_change_invisible_makes_a_message_visible_sooner(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"body")
        (message,) = await simple.receive(invisible_seconds=300)

        await simple.change_invisible(message, 1)

        (again,) = await receive_some(simple)
        await simple.ack(again)


async def test_renewing_keeps_a_message_invisible(cluster: Cluster) -> None:
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
        assert ReceiptHandle.parse(message.receipt).pop_millis > ReceiptHandle.parse(first).pop_millis


async def test_a_simple_consumer_may_subscribe_and_unsubscribe(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"order")
        await brokers.send("returns", b"return")
        async with consumer(cluster) as simple:
            await simple.ack(*await simple.receive())

            await simple.subscribe("returns")
            (message,) = await receive_some(simple)
            assert message.body == b"return"

            await simple.unsubscribe("returns")
            assert await simple.receive(wait_seconds=0) == []


async def test_the_namespace_is_hidden_from_the_application(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, namespace="tenant") as simple:
        await brokers.send("tenant%orders", b"body")

        (message,) = await receive_some(simple)
        await simple.ack(message)

        assert message.topic == "orders"


async def test_invalid_use_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="not at a timestamp"):
        SimpleConsumer("group", topics="orders", consume_from=ConsumeFrom.TIMESTAMP, options=options(cluster))
    simple = consumer(cluster)
    with pytest.raises(WrongState):
        await simple.receive()
    async with simple:
        with pytest.raises(NoRoute, match="orders"):
            await simple.receive(wait_seconds=0)
    with pytest.raises(WrongState):
        await simple.receive()


async def test_acknowledging_a_message_without_a_receipt_handle_is_refused(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"body")
        (message,) = await receive_some(simple)
        receipt = message.receipt

        message.receipt = None
        with pytest.raises(ClientError, match="not a receipt handle"):
            await simple.ack(message)
        message.receipt = str(receipt)[:-1] + "999"
        with pytest.raises(AnswerError):
            await simple.ack(message)
