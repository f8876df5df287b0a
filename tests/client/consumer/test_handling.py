"""How a handler is called."""

import asyncio
import functools
import threading
from collections.abc import Callable

import pytest

from kerolox.client.consumer.handling import Handler, Job, TaskWorkers, ThreadWorkers, Workers, workers
from kerolox.client.consumer.results import Consumed
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received, received
from kerolox.message.message import Message
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import Noted
from tests.client.sessions import until

QUEUE = MessageQueue("broker-a", 0, "orders")


def job() -> Job:
    return Job([received(Message("orders", b"body"), QUEUE)], QUEUE, Window())


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
        (Noted(), TaskWorkers),
        (functools.partial(_with, 1), TaskWorkers),
        (function, ThreadWorkers),
        (Noted().handle, ThreadWorkers),
    ],
    ids=["coroutine", "object", "partial", "function", "method"],
)
async def test_coroutines_run_in_tasks_and_functions_in_threads(handler: Handler, kind: type[Workers]) -> None:
    made = workers(handler, 2, lambda job: None)

    assert type(made) is kind
    await made.close()


@pytest.mark.parametrize("handler", [coroutine, function], ids=["coroutine", "function"])
async def test_a_call_may_be_waited_for(handler: Handler) -> None:
    made, called = workers(handler, 1, lambda job: None), job()

    await made.call(called)

    assert called.consumed is Consumed.LATER
    assert called.finished_at >= called.started_at > 0
    await made.close()


@pytest.mark.parametrize("handler", [coroutine, function], ids=["coroutine", "function"])
async def test_what_is_done_is_said_on_the_event_loop(handler: Handler) -> None:
    where: list[int] = []
    made = workers(handler, 3, lambda job: where.append(threading.get_ident()))

    made.submit([job() for _ in range(100)])

    await until(lambda: len(where) == 100)
    assert set(where) == {threading.get_ident()}
    await made.close()


async def test_what_is_under_way_when_tasks_are_closed_is_cancelled() -> None:
    begun: list[bool] = []
    ended: list[bool] = []

    async def handle(messages: list[Received]) -> None:
        begun.append(True)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    made = workers(handle, 2, lambda job: None)
    made.submit([job() for _ in range(3)])
    await until(lambda: len(begun) == 2)

    await made.close()

    assert ended == [True, True]


async def test_threads_begin_nothing_more_once_they_are_closed() -> None:
    gate, begun = threading.Event(), []

    def handle(messages: list[Received]) -> None:
        begun.append(1)
        gate.wait(10)

    done: list[Job] = []
    add: Callable[[Job], None] = done.append
    made = workers(handle, 1, add)
    made.submit([job() for _ in range(3)])
    await until(lambda: begun)

    await made.close()
    gate.set()

    await until(lambda: len(done) == 1)
    assert len(begun) == 1
