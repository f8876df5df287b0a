"""The pull consumer."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Unpack

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.subscriptions import Expression
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.settings import PullKeywords
from kerolox.client.errors import ClientError, WrongState
from kerolox.client.messages import Received
from kerolox.errors import TopicNotFound
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import numbered, sender
from tests.client.sessions import until


def consumer(
    cluster: Cluster, topics: dict[str, Expression] | tuple[str, ...] = (), **keywords: Unpack[PullKeywords]
) -> PullConsumer:
    merged: PullKeywords = {
        "namesrv_addr": cluster.namesrv_addr,
        "client_ip": "127.0.0.1",
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        **keywords,
    }
    return PullConsumer("group", topics=topics, **merged)


QUEUE = MessageQueue("broker-a", 0, "orders")


async def test_iteration_commits_each_message_when_the_next_is_requested(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(10))
        bodies: list[bytes] = []
        async with consumer(cluster, ("orders",)) as pull:
            async for message in pull:
                bodies.append(message.body)
                if len(bodies) == 6:
                    break

        assert bodies == numbered(6)
        assert await brokers.committed("group", "orders") == 6


@pytest.mark.parametrize("is_polling", [True, False])
async def test_rewind_redelivers_the_last_messages_in_order(cluster: Cluster, is_polling: bool) -> None:
    async with sender(cluster) as brokers, consumer(cluster, ("orders",)) as pull:
        await brokers.send("orders", *numbered(5))
        assert (await anext(pull)).body == b"0"
        if is_polling:
            assert await pull.poll(2) != []
        else:
            assert (await anext(pull)).body == b"1"

        pull.rewind()

        assert [(await anext(pull)).body for _ in range(4)] == numbered(5)[1:]
        await pull.commit()
        assert await brokers.committed("group", "orders") == 5


async def test_an_exception_leaves_the_last_message_unconsumed(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(10))

        async def fail_at_three() -> None:
            async with consumer(cluster, ("orders",)) as pull:
                async for message in pull:
                    if message.body == b"3":
                        raise ValueError("three")

        with pytest.raises(ValueError, match="three"):
            await fail_at_three()
        assert await brokers.committed("group", "orders") == 3


async def test_the_iteration_ends_when_the_consumer_is_closed(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        pull = consumer(cluster, ("orders",))
        await pull.start()
        bodies: list[bytes] = []

        async def iterate() -> None:
            async for message in pull:
                bodies[:] = [message.body]

        iterating = asyncio.create_task(iterate())
        await until(lambda: bodies)
        await pull.close()
        await iterating


async def test_poll_commits_the_messages_of_the_previous_poll(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(10))
        async with consumer(cluster, ("orders",), auto_commit=False) as pull:
            first = await pull.poll(4, timeout_seconds=10)
            assert [message.body for message in first] == numbered(4)
            assert 4 not in pull.status("orders").values()

            second = await pull.poll(4, timeout_seconds=10)
            assert [message.body for message in second] == numbered(4, start=4)
            assert 4 in pull.status("orders").values()

            await pull.commit()
            assert await pull.committed(QUEUE) == 8

        assert await brokers.committed("group", "orders") == 8


async def test_without_auto_commit_only_commit_commits(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        async with consumer(cluster, ("orders",), auto_commit=False) as pull:
            await pull.poll(timeout_seconds=10)
            await pull.poll(timeout_seconds=0)

        assert await brokers.committed("group", "orders") is None


async def test_auto_commit_commits_every_five_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        async with consumer(cluster, ("orders",), clock=clock) as pull:
            polled: list[Received] = []
            await until(lambda: QUEUE in pull.assigned)
            while len(polled) < 3:
                polled += await pull.poll(timeout_seconds=0)
                await asyncio.sleep(0)
            await pull.poll(timeout_seconds=0)
            await clock.advance(5)
            for _ in range(1000):
                if await brokers.committed("group", "orders") == 3:
                    break
            assert await brokers.committed("group", "orders") == 3


async def test_poll_returns_an_empty_list_after_its_timeout(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, consumer(cluster, ("orders",)) as pull:
        assert await pull.poll(timeout_seconds=0.01) == []

        waiting = asyncio.create_task(pull.poll(timeout_seconds=10))
        await brokers.send("orders", b"body")

        assert [message.body for message in await waiting] == [b"body"]


async def test_members_of_a_group_share_the_queues(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        for queue_id in range(4):
            await brokers.send("orders", b"%d" % queue_id, queue_id=queue_id)
        async with consumer(cluster, ("orders",)) as first, consumer(cluster, ("orders",)) as second:
            await until(lambda: len(first.assigned) == len(second.assigned) == 2)

            bodies: set[bytes] = set()
            while len(bodies) < 4:
                for pull in (first, second):
                    bodies |= {message.body for message in await pull.poll(timeout_seconds=0.01)}


async def test_poll_returns_the_messages_that_an_iteration_prefetched(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, ("orders",)) as pull:
            assert (await anext(pull)).body == b"0"
            assert (await anext(pull)).body == b"1"

            assert [message.body for message in await pull.poll()] == [b"2", b"3", b"4"]

        assert await brokers.committed("group", "orders") == 5


async def test_queues_are_read_round_robin(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        for queue_id in range(4):
            await brokers.send("orders", *[b"%d" % queue_id] * 50, queue_id=queue_id)
        async with consumer(cluster, ("orders",)) as pull:
            await until(lambda: pull.statistics.of("orders").pulled == 200)

            polled = [{message.body for message in await pull.poll(10)} for _ in range(4)]

        assert len(set.union(*polled)) > 1


async def test_a_consumer_reads_its_assigned_queues(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3), queue_id=0)
        await brokers.send("orders", b"other", queue_id=1)
        async with consumer(cluster) as pull:
            assert len(await pull.queues("orders")) == 4

            await pull.assign([QUEUE])
            assert [message.body for message in await pull.poll(timeout_seconds=10)] == numbered(3)

            other = MessageQueue("broker-a", 1, "orders")
            await pull.assign([other])
            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"other"]
            assert pull.assigned == [other]
            with pytest.raises(ClientError, match="is not assigned"):
                await pull.seek(QUEUE, 0)


async def test_assigned_queues_are_filtered_by_tag(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"a", tag="TagA")
        await brokers.send("orders", b"b", tag="TagB")
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE], "TagB")
            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"b"]


async def test_seek_continues_at_any_valid_offset(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE])

            await pull.seek(QUEUE, 3)
            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"3", b"4"]
            await pull.seek_to_begin(QUEUE)
            assert [message.body for message in await pull.poll(2, timeout_seconds=10)] == [b"0", b"1"]
            await pull.seek_to_end(QUEUE)
            assert await pull.poll(timeout_seconds=0.05) == []
            assert await pull.offset_at(QUEUE, datetime.now(UTC) - timedelta(hours=1)) == 0
            assert (await pull.min_offset(QUEUE), await pull.max_offset(QUEUE)) == (0, 5)
            with pytest.raises(ClientError, match="begins at 0 and ends at 5"):
                await pull.seek(QUEUE, 6)
        assert await brokers.committed("group", "orders") == 5


async def test_the_later_of_two_concurrent_seeks_wins(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE])

            await asyncio.gather(pull.seek(QUEUE, 1), pull.seek(QUEUE, 3))

            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"3", b"4"]


async def test_a_paused_queue_stays_paused_after_a_seek(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE])
            counts = pull.statistics.of("orders")
            await until(lambda: counts.pulled == 5)
            pull.pause(QUEUE)

            await pull.seek(QUEUE, 3)

            await until(lambda: counts.pulled == 7)
            assert await pull.poll(timeout_seconds=0) == []
            pull.resume(QUEUE)
            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"3", b"4"]


async def test_two_concurrent_polls_both_get_messages(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(2))
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE])
            pull.pause(QUEUE)
            counts = pull.statistics.of("orders")
            await until(lambda: counts.pulled == 2)
            first = asyncio.create_task(pull.poll(1, timeout_seconds=60))
            await asyncio.sleep(0)

            # The first poll is about to wait when this sets the event.
            pull.resume(QUEUE)
            second = await pull.poll(1, timeout_seconds=60)

            async with asyncio.timeout(10):
                assert [message.body for message in [*second, *await first]] == numbered(2)


async def test_single_offsets_can_be_committed(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, auto_commit=False) as pull:
            await pull.assign([QUEUE])
            await pull.commit({QUEUE: 2})

            assert await pull.committed(QUEUE) == 2


@pytest.mark.parametrize("is_assigned", [True, False], ids=["assigned", "subscribed"])
async def test_an_offset_out_of_range_is_corrected_by_the_broker(cluster: Cluster, is_assigned: bool) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, auto_commit=False) as pull:
            await pull.assign([QUEUE])
            await pull.commit({QUEUE: 100})

        async with consumer(cluster, () if is_assigned else ("orders",)) as pull:
            if is_assigned:
                await pull.assign([QUEUE])
            await until(lambda: pull.status("orders").get(QUEUE) == 5)
            await brokers.send("orders", b"next")

            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"next"]


async def test_a_paused_queue_returns_no_messages(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        async with consumer(cluster) as pull:
            await pull.assign([QUEUE])
            pull.pause(QUEUE)
            await until(lambda: pull.statistics.of("orders").pulled == 1)
            assert await pull.poll(timeout_seconds=0.01) == []

            pull.resume()

            assert [message.body for message in await pull.poll(timeout_seconds=10)] == [b"body"]


async def test_invalid_use_is_refused(cluster: Cluster) -> None:
    pull = consumer(cluster, ("orders",))
    with pytest.raises(WrongState, match="has not been started"):
        await pull.poll()
    with pytest.raises(WrongState, match="has not been started"):
        await anext(pull)
    async with pull:
        with pytest.raises(WrongState, match="has subscriptions"):
            await pull.assign([QUEUE])
        with pytest.raises(TopicNotFound):
            await pull.queues("nowhere")
    with pytest.raises(WrongState, match="has been closed"):
        await pull.poll()

    async with sender(cluster) as brokers, consumer(cluster) as assigned:
        await brokers.send("orders", b"body")
        await assigned.assign([QUEUE])
        with pytest.raises(WrongState, match="cannot subscribe"):
            await assigned.subscribe("orders")
