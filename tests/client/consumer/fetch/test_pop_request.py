"""Popping messages: ordered or not, from one or several brokers."""

import asyncio

from kerolox.testing import Cluster
from tests.client.consumer.consumers import numbered, sender
from tests.client.consumer.poppers import consumer, receive_some
from tests.client.sessions import until


async def test_an_ordered_queue_delivers_no_more_before_all_is_acknowledged(cluster: Cluster) -> None:
    async with (
        sender(cluster) as brokers,
        consumer(cluster, is_ordered=True) as first,
        consumer(cluster, is_ordered=True) as second,
    ):
        await brokers.send("orders", *numbered(5))

        one, two = await first.receive(2, wait_seconds=0)
        assert [one.body, two.body] == [b"0", b"1"]
        assert await second.receive(wait_seconds=0) == []
        await first.ack(one)
        assert await second.receive(wait_seconds=0) == []
        await first.ack(two)

        rest = await second.receive(wait_seconds=0)
        assert [message.body for message in rest] == [b"2", b"3", b"4"]
        await second.ack(*rest)
        assert await first.receive(wait_seconds=0) == []


async def test_an_ordered_message_is_redelivered_in_order_and_counted(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, is_ordered=True) as simple:
        await brokers.send("orders", *numbered(3))
        one, two = await simple.receive(2, invisible_seconds=30)
        await simple.ack(one)

        await simple.change_invisible(two, 0.1)

        (again, *_) = await receive_some(simple)
        assert (again.body, again.reconsume_times, again.queue.topic) == (b"1", 1, "orders")


async def test_receive_waits_for_a_new_message(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as simple:
        await brokers.send("orders", b"first")
        await simple.ack(*await simple.receive())
        waiting = asyncio.create_task(simple.receive(wait_seconds=30))
        await until(lambda: len(cluster.brokers[0].pop.polling) == 1)

        await brokers.send("orders", b"second")

        async with asyncio.timeout(5):
            assert [message.body for message in await waiting] == [b"second"]


async def test_receive_waits_for_all_brokers_and_topics(two_brokers: Cluster) -> None:
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
            await until(lambda: sum(len(broker.pop.notification_polling) for broker in two_brokers.brokers) == 4)

            await brokers.send("returns", b"later", broker=1)

            async with asyncio.timeout(5):
                (message,) = await waiting
            assert (message.body, message.topic, message.queue.broker_name) == (b"later", "returns", "broker-b")


async def test_simple_consumers_share_messages_without_assigned_queues(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster) as first, consumer(cluster) as second:
        await brokers.send("orders", *numbered(10))

        bodies: list[bytes] = []
        while len(bodies) < 10:
            for simple in (first, second):
                messages = await simple.receive(3, wait_seconds=1)
                bodies += [message.body for message in messages]
                await simple.ack(*messages)

        assert sorted(bodies) == numbered(10)


async def test_popped_messages_are_filtered_by_tag(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, {"orders": "Aa"}) as simple:
        await brokers.send("orders", b"other", tag="TagB")
        await brokers.send("orders", b"same hash", tag="BB")
        await brokers.send("orders", b"right", tag="Aa")

        assert [message.body for message in await receive_some(simple)] == [b"right"]
