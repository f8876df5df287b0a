"""Consuming at once: what is given up, and what is tried again here."""

import asyncio
import threading

from kerolox.client.consumer.concurrent import Concurrent
from kerolox.client.consumer.handling import Handler, Job
from kerolox.client.consumer.offsets import BrokerOffsets
from kerolox.client.consumer.results import Consumed
from kerolox.client.consumer.retry import Retries
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received, received
from kerolox.message.message import Message
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import Noted
from tests.client.consumer.fake_brokers import FakeBrokers
from tests.client.sessions import turns, until

QUEUE = MessageQueue("broker-a", 0, "orders")


class NotedRetries(Retries):
    """Takes messages back, or not."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []
        self.is_willing = True

    async def send_back(self, message: Received, delay_level: int = 0) -> bool:
        self.taken.append((message.queue_offset, delay_level))
        return self.is_willing


class Stage:
    def __init__(self, handler: Handler, count: int = 20, batch_size: int = 1) -> None:
        self.clock = ManualClock()
        self.offsets = BrokerOffsets(FakeBrokers(), "group")
        self.retries = NotedRetries()
        self.observed: list[Job] = []
        self.window: Window[Received] = Window()
        self.concurrent = Concurrent(
            handler,
            self.offsets,
            self.retries,
            self.clock,
            count=count,
            batch_size=batch_size,
            observe=self.observed.append,
        )

    def deliver(self, *offsets: int) -> None:
        messages = [received(Message("orders", b"%d" % offset, queue_offset=offset), QUEUE) for offset in offsets]
        self.concurrent.deliver(QUEUE, self.window, self.window.put(messages))


async def test_what_is_committed_lies_before_the_first_that_is_not_done() -> None:
    gates = {b"%d" % offset: asyncio.Event() for offset in range(3)}

    async def handle(messages: list[Received]) -> None:
        await gates[messages[0].body].wait()

    stage = Stage(handle)
    stage.deliver(0, 1, 2)
    gates[b"1"].set()
    await until(lambda: len(stage.observed) == 1)
    assert stage.offsets.get(QUEUE) == 0

    gates[b"0"].set()
    await until(lambda: len(stage.observed) == 2)
    assert stage.offsets.get(QUEUE) == 2
    await stage.concurrent.close()


async def test_what_no_broker_takes_back_is_tried_again_here_after_five_seconds() -> None:
    noted = Noted(Consumed.LATER)
    stage = Stage(noted)
    stage.retries.is_willing = False
    stage.deliver(7)
    await until(lambda: stage.retries.taken == [(7, 0)])
    assert stage.window.count == 1

    await stage.clock.advance(5)

    await until(lambda: stage.offsets.get(QUEUE) == 8)
    assert [message.reconsume_times for message in noted.messages] == [1, 1]
    assert noted.messages[0] is noted.messages[1]
    await stage.concurrent.close()


async def test_a_handler_that_takes_too_long_is_given_up_and_what_it_says_later_does_not_count() -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    async def handle(messages: list[Received]) -> Consumed | None:
        if messages[0].queue_offset == 0:
            await gate.wait()
            ended.set()
            return Consumed.LATER
        return None

    stage = Stage(handle)
    stage.deliver(0, 1)
    await until(lambda: len(stage.observed) == 1)
    stage.concurrent.give_up_expired(60)
    assert stage.retries.taken == []

    stage.concurrent.give_up_expired(-1)
    await until(lambda: stage.offsets.get(QUEUE) == 2)
    assert stage.retries.taken == [(0, 3)]

    gate.set()
    await ended.wait()
    await turns()
    assert stage.retries.taken == [(0, 3)]
    await stage.concurrent.close()


async def test_of_a_queue_that_was_given_up_nothing_is_begun_and_nothing_counts() -> None:
    gate = asyncio.Event()
    begun: list[int] = []

    async def handle(messages: list[Received]) -> None:
        begun.append(messages[0].queue_offset)
        await gate.wait()

    stage = Stage(handle, count=1)
    stage.deliver(0, 1)
    await until(lambda: begun == [0])

    stage.window.drop()
    gate.set()
    await until(lambda: len(stage.observed) == 1)
    await turns()

    assert begun == [0]
    assert stage.offsets.get(QUEUE) is None
    await stage.concurrent.close()


async def test_threads_do_not_begin_what_was_given_up_either() -> None:
    gate = threading.Event()
    begun: list[int] = []

    def handle(messages: list[Received]) -> None:
        begun.append(messages[0].queue_offset)
        gate.wait(20)

    stage = Stage(handle, count=1)
    stage.deliver(0, 1)
    await until(lambda: begun == [0])
    stage.window.drop()
    gate.set()
    await until(lambda: len(stage.observed) == 1)
    await stage.concurrent.close()

    assert begun == [0]


async def test_a_handler_that_never_waits_leaves_others_their_turn() -> None:
    """Ten thousand messages take longer than the loop may be kept."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def handle(messages: list[Received]) -> None:
        sum(range(200))

    stage = Stage(handle)
    counting = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    before = turns
    stage.deliver(*range(10_000))
    await until(lambda: stage.offsets.get(QUEUE) == 10_000)

    assert turns - before > 5
    counting.cancel()
    await stage.concurrent.close()
