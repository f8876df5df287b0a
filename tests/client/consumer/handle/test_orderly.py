"""Orderly consumption."""

import asyncio
import threading
from typing import Unpack

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.handle.invoke import Handler
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.settings import PushKeywords
from kerolox.client.messages import Received
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from tests.client.consumer.consumers import RecordingHandler, numbered, sender
from tests.client.consumer.fake_brokers import FakeBrokers
from tests.client.sessions import until


def orderly(cluster: Cluster, handler: Handler, **keywords: Unpack[PushKeywords]) -> PushConsumer:
    merged: PushKeywords = {
        "namesrv_addr": cluster.namesrv_addr,
        "client_ip": "127.0.0.1",
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        "is_orderly": True,
        "suspend_current_queue_seconds": 0.01,
        **keywords,
    }
    return PushConsumer("group", handler, topics="orders", **merged)


async def test_messages_of_a_queue_are_consumed_one_at_a_time(cluster: Cluster) -> None:
    running = 0
    bodies: list[bytes] = []

    async def handle(messages: list[Received]) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        bodies.extend(message.body for message in messages)
        running -= 1

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(40))
        async with orderly(cluster, handle):
            await until(lambda: len(bodies) == 40)

        assert bodies == numbered(40)
        assert await brokers.committed("group", "orders") == 40


async def test_a_plain_function_gets_messages_in_order(cluster: Cluster) -> None:
    bodies: list[bytes] = []

    def handle(messages: list[Received]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        bodies.extend(message.body for message in messages)

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(40))
        async with orderly(cluster, handle, consume_message_batch_max_size=3):
            await until(lambda: len(bodies) == 40)

    assert bodies == numbered(40)


async def test_queues_do_not_block_each_other(cluster: Cluster) -> None:
    done: list[int] = []

    async def handle(messages: list[Received]) -> None:
        if messages[0].queue.queue_id == 0:
            await until(lambda: 1 in done)
        done.append(messages[0].queue.queue_id)

    async with sender(cluster) as brokers:
        await brokers.send("orders", b"waits", queue_id=0)
        await brokers.send("orders", b"goes on", queue_id=1)
        async with orderly(cluster, handle):
            await until(lambda: done == [1, 0])


async def test_a_failed_message_is_retried_before_the_next(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        recorder = RecordingHandler(None, ValueError("not yet"), Consumed.LATER)
        times: list[int] = []

        async def handle(messages: list[Received]) -> Consumed | None:
            times.append(messages[0].reconsume_times)
            return recorder.handle(messages)

        async with orderly(cluster, handle):
            await until(lambda: len(recorder.calls) == 5)

        assert recorder.bodies == [b"0", b"1", b"1", b"1", b"2"]
        assert times == [0, 0, 1, 2, 0]


async def test_a_message_over_the_retry_limit_becomes_a_dead_letter(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"hopeless", b"fine")
        recorder = RecordingHandler(*[Consumed.LATER] * 3)

        async with orderly(cluster, recorder, max_reconsume_times=2):
            await until(lambda: recorder.bodies[-1:] == [b"fine"])

        assert recorder.bodies == [b"hopeless"] * 3 + [b"fine"]
        assert await brokers.max_offset("%DLQ%group") == 1
        assert await brokers.committed("group", "orders") == 2


async def test_a_handler_may_commit_or_roll_back_several_calls(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(4))
        recorder = RecordingHandler(None, Consumed.ROLLBACK, None, Consumed.COMMIT)

        async with orderly(cluster, recorder, auto_commit=False):
            await until(lambda: len(recorder.calls) == 6)

        assert recorder.bodies == [b"0", b"1", b"0", b"1", b"2", b"3"]
        # The messages after the commit were not committed.
        assert await brokers.committed("group", "orders") == 2


async def test_a_queue_is_not_reassigned_while_its_handler_runs(cluster: Cluster) -> None:
    go_on = asyncio.Event()
    first_calls: list[bytes] = []

    async def slow(messages: list[Received]) -> None:
        first_calls.append(messages[0].body)
        await go_on.wait()

    async with sender(cluster) as brokers:
        for queue_id in range(4):
            await brokers.send("orders", b"%d" % queue_id, queue_id=queue_id)
        async with orderly(cluster, slow) as first:
            await until(lambda: len(first_calls) == 4)
            recorder = RecordingHandler()
            async with orderly(cluster, recorder) as second:
                await until(lambda: len([queue for queue in first.assigned if queue.topic == "orders"]) == 2)
                # The handler still has messages of the two queues that were reassigned.
                assert [queue for queue in second.assigned if queue.topic == "orders"] == []
                assert recorder.bodies == []

                go_on.set()

                await until(lambda: len([queue for queue in second.assigned if queue.topic == "orders"]) == 2)
                await until(lambda: len(recorder.bodies) == 2)


async def test_locks_are_renewed_and_released(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        recorder = RecordingHandler()
        async with orderly(cluster, recorder, clock=clock) as push:
            await until(lambda: recorder.bodies == [b"body"])
            (queue,) = [queue for queue in push.assigned if queue.topic == "orders" and queue.queue_id == 0]
            locks = push.locks
            assert locks is not None
            for _ in range(4):
                await clock.advance(20)
                await until(lambda: clock.millis() - locks.locked_millis(queue) < 1000)

        assert not locks.is_locked(queue)
        # The next member need not wait until the lock expires.
        async with orderly(cluster, (other := RecordingHandler()), consume_from=ConsumeFrom.FIRST_OFFSET):
            await brokers.send("orders", b"next")
            await until(lambda: other.bodies == [b"next"])


async def test_a_lost_lock_releases_the_queue_and_locks_it_again(cluster: Cluster) -> None:
    clock = ManualClock()
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        recorder = RecordingHandler()
        async with orderly(cluster, recorder, clock=clock) as push:
            await until(lambda: recorder.bodies == [b"body"])
            assert push.locks is not None
            queues = set(push.assigned)

            # As if no broker had been reachable for some time.
            session = push.locks._session
            push.locks._locked.clear()
            push.locks._session = FakeBrokers()
            await push._renew_locks()
            assert push.assigned == []

            push.locks._session = session
            push.rebalance_soon()
            await until(lambda: set(push.assigned) == queues)
            await brokers.send("orders", b"next")
            await until(lambda: recorder.bodies[-1] == b"next")


async def test_a_hanging_handler_does_not_block_close(cluster: Cluster) -> None:
    begun: list[Received] = []

    async def hang(messages: list[Received]) -> None:
        begun.extend(messages)
        await asyncio.Event().wait()

    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        async with orderly(cluster, hang, await_termination_seconds=0.05) as push:
            await until(lambda: begun)
            await push.unsubscribe("orders")

        assert await brokers.committed("group", "orders") in (None, 0)
