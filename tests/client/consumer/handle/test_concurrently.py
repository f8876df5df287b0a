"""Concurrent consumption: overdue jobs, dropped queues and local retries."""

import asyncio
import threading

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.group.offset_store import BrokerOffsetStore
from kerolox.client.consumer.handle.concurrently import ConsumeConcurrently
from kerolox.client.consumer.handle.invoke import ConsumeContext, Handler, Job
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.handle.send_back import SendBack
from kerolox.client.consumer.settings import PushSettings
from kerolox.client.messages import Received, received
from kerolox.message.message import Message
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import RecordingHandler
from tests.client.consumer.fake_brokers import FakeBrokers
from tests.client.sessions import run_ready_callbacks, until

QUEUE = MessageQueue("broker-a", 0, "orders")


class RecordingSendBack(SendBack):
    """Records the messages that are sent back; fails if not `is_accepting`."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.is_accepting = True

    async def send_back(self, message: Received, delay_level: int = 0) -> bool:
        self.sent.append((message.queue_offset, delay_level))
        return self.is_accepting


class Fixture:
    """ConsumeConcurrently with a manual clock and fake brokers."""

    def __init__(self, handler: Handler, count: int = 20) -> None:
        self.clock = ManualClock()
        self.offsets = BrokerOffsetStore(FakeBrokers(), "group")
        self.send_back = RecordingSendBack()
        self.observed: list[Job] = []
        self.process_queue: ProcessQueue[Received] = ProcessQueue()
        self.service = ConsumeConcurrently(
            ConsumeContext(handler, self.offsets, self.send_back, self.clock, self.observed.append),
            PushSettings(consume_thread_max=count),
        )

    def deliver(self, *offsets: int) -> None:
        messages = [received(Message("orders", b"%d" % offset, queue_offset=offset), QUEUE) for offset in offsets]
        self.service.deliver(QUEUE, self.process_queue, self.process_queue.put(messages))


async def test_the_offset_advances_to_the_first_unconsumed_message() -> None:
    gates = {b"%d" % offset: asyncio.Event() for offset in range(3)}

    async def handle(messages: list[Received]) -> None:
        await gates[messages[0].body].wait()

    fixture = Fixture(handle)
    fixture.deliver(0, 1, 2)
    gates[b"1"].set()
    await until(lambda: len(fixture.observed) == 1)
    assert fixture.offsets.get(QUEUE) == 0

    gates[b"0"].set()
    await until(lambda: len(fixture.observed) == 2)
    assert fixture.offsets.get(QUEUE) == 2
    await fixture.service.close()


async def test_a_message_that_cannot_be_sent_back_is_retried_locally_after_five_seconds() -> None:
    recorder = RecordingHandler(Consumed.LATER)
    fixture = Fixture(recorder)
    fixture.send_back.is_accepting = False
    fixture.deliver(7)
    await until(lambda: fixture.send_back.sent == [(7, 0)])
    assert fixture.process_queue.count == 1

    await fixture.clock.advance(5)

    await until(lambda: fixture.offsets.get(QUEUE) == 8)
    assert [message.reconsume_times for message in recorder.messages] == [1, 1]
    assert recorder.messages[0] is recorder.messages[1]
    await fixture.service.close()


async def test_an_overdue_job_is_sent_back_and_its_late_result_ignored() -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    async def handle(messages: list[Received]) -> Consumed | None:
        if messages[0].queue_offset == 0:
            await gate.wait()
            ended.set()
            return Consumed.LATER
        return None

    fixture = Fixture(handle)
    fixture.deliver(0, 1)
    await until(lambda: len(fixture.observed) == 1)
    fixture.service.expire_overdue(60)
    assert fixture.send_back.sent == []

    fixture.service.expire_overdue(-1)
    await until(lambda: fixture.offsets.get(QUEUE) == 2)
    assert fixture.send_back.sent == [(0, 3)]

    gate.set()
    await ended.wait()
    await run_ready_callbacks()
    assert fixture.send_back.sent == [(0, 3)]
    await fixture.service.close()


async def test_a_dropped_queue_starts_no_jobs_and_ignores_results() -> None:
    gate = asyncio.Event()
    begun: list[int] = []

    async def handle(messages: list[Received]) -> None:
        begun.append(messages[0].queue_offset)
        await gate.wait()

    fixture = Fixture(handle, count=1)
    fixture.deliver(0, 1)
    await until(lambda: begun == [0])

    fixture.process_queue.drop()
    gate.set()
    await until(lambda: len(fixture.observed) == 1)
    await run_ready_callbacks()

    assert begun == [0]
    assert fixture.offsets.get(QUEUE) is None
    await fixture.service.close()


async def test_threads_skip_jobs_of_a_dropped_queue() -> None:
    gate = threading.Event()
    begun: list[int] = []

    def handle(messages: list[Received]) -> None:
        begun.append(messages[0].queue_offset)
        gate.wait(20)

    fixture = Fixture(handle, count=1)
    fixture.deliver(0, 1)
    await until(lambda: begun == [0])
    fixture.process_queue.drop()
    gate.set()
    await until(lambda: len(fixture.observed) == 1)
    await fixture.service.close()

    assert begun == [0]


async def test_a_handler_that_never_suspends_yields_to_the_loop() -> None:
    """Ten thousand messages take longer than a time slice."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def handle(messages: list[Received]) -> None:
        sum(range(200))

    fixture = Fixture(handle)
    counting = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    before = turns
    fixture.deliver(*range(10_000))
    await until(lambda: fixture.offsets.get(QUEUE) == 10_000)

    assert turns - before > 5
    counting.cancel()
    await fixture.service.close()
