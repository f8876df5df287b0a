"""Task workers and thread workers."""

import asyncio
import functools
import threading
from collections.abc import Callable

import pytest

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.handle.invoke import Handler, Job, TaskWorkers, ThreadWorkers, Workers, create_workers
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.messages import Received, received
from kerolox.message.message import Message
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import RecordingHandler
from tests.client.sessions import until

QUEUE = MessageQueue("broker-a", 0, "orders")


def job() -> Job:
    return Job([received(Message("orders", b"body"), QUEUE)], QUEUE, ProcessQueue())


async def coroutine(messages: list[Received]) -> Consumed | None:
    return Consumed.LATER


def function(messages: list[Received]) -> Consumed | None:
    return Consumed.LATER


async def _with(extra: int, messages: list[Received]) -> Consumed | None:
    return None


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (coroutine, TaskWorkers),
        (RecordingHandler(), TaskWorkers),
        (functools.partial(_with, 1), TaskWorkers),
        (function, ThreadWorkers),
        (RecordingHandler().handle, ThreadWorkers),
    ],
    ids=["coroutine", "object", "partial", "function", "method"],
)
async def test_coroutines_run_in_tasks_and_functions_in_threads(handler: Handler, kind: type[Workers]) -> None:
    workers = create_workers(handler, 2, lambda job: None)

    assert type(workers) is kind
    await workers.close()


@pytest.mark.parametrize("handler", [coroutine, function], ids=["coroutine", "function"])
async def test_call_waits_for_the_handler(handler: Handler) -> None:
    workers, called = create_workers(handler, 1, lambda job: None), job()

    await workers.call(called)

    assert called.consumed is Consumed.LATER
    assert called.finished_at >= called.started_at > 0
    await workers.close()


@pytest.mark.parametrize("handler", [coroutine, function], ids=["coroutine", "function"])
async def test_done_is_called_on_the_event_loop(handler: Handler) -> None:
    where: list[int] = []
    workers = create_workers(handler, 3, lambda job: where.append(threading.get_ident()))

    workers.submit([job() for _ in range(100)])

    await until(lambda: len(where) == 100)
    assert set(where) == {threading.get_ident()}
    await workers.close()


async def test_closing_task_workers_cancels_running_jobs() -> None:
    begun: list[bool] = []
    ended: list[bool] = []

    async def handle(messages: list[Received]) -> None:
        begun.append(True)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    workers = create_workers(handle, 2, lambda job: None)
    workers.submit([job() for _ in range(3)])
    await until(lambda: len(begun) == 2)

    await workers.close()

    assert ended == [True, True]


async def test_closed_thread_workers_start_no_more_jobs() -> None:
    gate, begun = threading.Event(), []

    def handle(messages: list[Received]) -> None:
        begun.append(1)
        gate.wait(10)

    done: list[Job] = []
    add: Callable[[Job], None] = done.append
    workers = create_workers(handle, 1, add)
    workers.submit([job() for _ in range(3)])
    await until(lambda: begun)

    await workers.close()
    gate.set()

    await until(lambda: len(done) == 1)
    assert len(begun) == 1
