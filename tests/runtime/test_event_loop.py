import asyncio
import os
from functools import partial
from typing import Any

import pytest

from kerolox.runtime import event_loop
from kerolox.runtime.event_loop import (
    READ_SIZE_MAX,
    ReadBudget,
    ServerLoop,
    add_reader,
    at_end_of_turn,
    remove_reader,
)


class Pipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def fill(self) -> None:
        os.write(self.write_end, b"x")

    def drain(self) -> None:
        os.read(self.read_end, 1)

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self.write_end)


def on_server_loop(main: Any) -> Any:
    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        return runner.run(main)


def test_end_of_turn_jobs_run_after_all_sockets_of_the_turn_were_read() -> None:
    pipes = [Pipe() for _ in range(3)]
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def job() -> None:
            seen.append("end")
            if seen.count("end") == 1:
                done.set()

        def read(pipe: Pipe) -> None:
            pipe.drain()
            if not seen:
                at_end_of_turn(loop, job)
            seen.append("read")

        for pipe in pipes:
            add_reader(loop, pipe.read_end, partial(read, pipe))
            pipe.fill()
        await asyncio.wait_for(done.wait(), 30)
        for pipe in pipes:
            remove_reader(loop, pipe.read_end)

    on_server_loop(main())

    assert seen == ["read", "read", "read", "end"]
    for pipe in pipes:
        pipe.close()


@pytest.mark.parametrize("factory", [ServerLoop, asyncio.SelectorEventLoop])
def test_an_end_of_turn_job_of_a_task_runs_without_any_other_event(factory: Any) -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        at_end_of_turn(loop, lambda: at_end_of_turn(loop, lambda: future.set_result("both")))
        return await asyncio.wait_for(future, 30)

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == "both"


def test_a_failing_reader_or_job_does_not_stop_the_others() -> None:
    bad, good = Pipe(), Pipe()
    errors: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(str(context["exception"])))
        done = asyncio.Event()

        def fail(name: str, pipe: Pipe | None = None) -> None:
            if pipe is not None:
                pipe.drain()
            raise ValueError(name)

        def succeed() -> None:
            good.drain()
            at_end_of_turn(loop, lambda: fail("job"))
            at_end_of_turn(loop, done.set)

        add_reader(loop, bad.read_end, lambda: fail("reader", bad))
        add_reader(loop, good.read_end, succeed)
        bad.fill()
        good.fill()
        await asyncio.wait_for(done.wait(), 30)

    on_server_loop(main())

    assert sorted(errors) == ["job", "reader"]
    bad.close()
    good.close()


def test_a_reader_may_remove_another_readable_reader_in_the_same_turn() -> None:
    pipes = [Pipe(), Pipe()]
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def read(number: int) -> None:
            seen.append(number)
            for pipe in pipes:
                remove_reader(loop, pipe.read_end)
            done.set()

        for number, pipe in enumerate(pipes):
            add_reader(loop, pipe.read_end, partial(read, number))
            pipe.fill()
        await asyncio.wait_for(done.wait(), 30)
        await asyncio.sleep(0)

    on_server_loop(main())

    assert len(seen) == 1
    for pipe in pipes:
        pipe.close()


def test_timers_threads_and_subprocesses_work_on_the_server_loop() -> None:
    async def main() -> tuple[int, int | None]:
        await asyncio.sleep(0.001)
        number = await asyncio.to_thread(lambda: 7)
        process = await asyncio.create_subprocess_exec("true")
        return number, await asyncio.wait_for(process.wait(), 30)

    assert event_loop.run(main()) == (7, 0)


@pytest.mark.parametrize(
    "leave",
    [
        lambda loop, job: loop.call_soon(job),
        lambda loop, job: loop.call_soon_threadsafe(job),
        lambda loop, job: loop.call_later(0, job),
        lambda loop, job: loop.call_later(0.002, job),
        lambda loop, job: loop.run_in_executor(None, loop.call_soon_threadsafe, job),
    ],
)
def test_callbacks_scheduled_by_a_reader_run_although_sockets_stay_readable(leave: Any) -> None:
    pipe = Pipe()
    pipe.fill()
    turns = 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def read() -> None:
            nonlocal turns
            turns += 1
            if turns == 3:
                leave(loop, done.set)

        add_reader(loop, pipe.read_end, read)
        await done.wait()
        remove_reader(loop, pipe.read_end)

    on_server_loop(main())

    assert turns >= 3
    pipe.close()


def test_a_timer_fires_although_sockets_stay_readable() -> None:
    pipe = Pipe()
    pipe.fill()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        add_reader(loop, pipe.read_end, lambda: None)
        await asyncio.sleep(0.002)
        remove_reader(loop, pipe.read_end)

    on_server_loop(main())

    pipe.close()


def test_a_reader_can_stop_the_loop() -> None:
    pipe = Pipe()
    pipe.fill()
    loop = ServerLoop()

    add_reader(loop, pipe.read_end, loop.stop)
    loop.run_forever()

    remove_reader(loop, pipe.read_end)
    loop.close()
    pipe.close()


def test_closing_the_loop_closes_its_epoll_descriptor() -> None:
    loop = ServerLoop()

    loop.close()

    assert loop.selector._epoll.closed


class FakeEpoll:
    """Records the timeout of each poll; `found` maps the number of a call that finds an event to its duration in ns."""

    def __init__(self, clock: list[int], found: dict[int, int]) -> None:
        self.waits: list[float] = []
        self._clock = clock
        self._found = found

    def poll(self, wait: float, _: int) -> list[tuple[int, int]]:
        self.waits.append(wait)
        nanos = self._found.get(len(self.waits))
        self._clock[0] += 25_000 if nanos is None else nanos
        return [] if nanos is None and wait == 0 else [(0, 0)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Both waits are long: no busy polling.
        ({1: 1_000_000, 2: 1_000_000}, [-1.0, -1.0]),
        # The first wait is short: the second busy-polls and finds an event.
        ({1: 10_000, 3: 1}, [-1.0, 0, 0]),
        # Busy polling finds nothing in time: the third wait sleeps at once.
        ({1: 10_000, 5: 1_000_000, 6: 1}, [-1.0, 0, 0, 0, -1.0, -1.0]),
    ],
)
def test_a_short_wait_is_followed_by_busy_polling(
    monkeypatch: pytest.MonkeyPatch, found: dict[int, int], expected: list[float]
) -> None:
    clock = [0]
    monkeypatch.setattr(event_loop, "perf_counter_ns", lambda: clock[0])
    selector = event_loop.ServerSelector(lambda error: None)
    epoll = FakeEpoll(clock, found)
    monkeypatch.setattr(selector, "_epoll", epoll)

    while len(epoll.waits) < len(expected):
        selector.select(None)

    assert epoll.waits == expected
    monkeypatch.undo()
    selector.close()


def test_no_busy_polling_while_callbacks_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(event_loop, "perf_counter_ns", lambda: clock[0])
    selector = event_loop.ServerSelector(lambda error: None)
    epoll = FakeEpoll(clock, {1: 10_000})
    monkeypatch.setattr(selector, "_epoll", epoll)

    for _ in range(3):
        selector.select(None if not epoll.waits else 0)

    assert epoll.waits == [-1.0, 0, 0]
    monkeypatch.undo()
    selector.close()


def one_turn(budget: ReadBudget, sizes: list[int], millis: float) -> int:
    """Return how many bytes each socket might read in a turn in which sockets read so many bytes."""
    budget.begin(len(sizes))
    for size in sizes:
        budget.note(min(size, budget.size))
    budget.end(int(millis * 1_000_000))
    return budget.size


MANY, FEW = 10_000_000, 300


@pytest.mark.parametrize("sizes", [[MANY] * 9, [FEW] * 9])
def test_long_turns_of_equal_clients_are_not_shortened(sizes: list[int]) -> None:
    budget = ReadBudget()

    assert {one_turn(budget, sizes, 20) for _ in range(50)} == {1024 * 1024 // 9}


def test_long_turns_are_shortened_for_a_client_with_one_request_in_flight() -> None:
    budget = ReadBudget()
    for _ in range(50):
        # A turn takes 20 us per KiB.
        one_turn(budget, [*[MANY] * 8, FEW], 8 * budget.size / 1024 * 0.02)

    assert 8 * budget.size / 1024 * 0.02 == pytest.approx(2.5, rel=0.2)


def test_one_slow_turn_halves_the_next_at_most_and_the_limit_is_lifted_later() -> None:
    budget = ReadBudget()
    first = one_turn(budget, [MANY, FEW], 1)
    one_turn(budget, [MANY, FEW], 10_000)
    assert one_turn(budget, [MANY, FEW], 1) == first

    sizes = [one_turn(budget, [MANY] * 64, 1) for _ in range(40)]

    assert sizes[0] == 1024 * 1024 // 2 // 64 * 17 // 16
    assert sizes[-1] == 1024 * 1024 // 64


def test_a_socket_may_always_read_some_bytes_and_never_more_than_the_buffer_has() -> None:
    budget = ReadBudget()
    for _ in range(50):
        assert 4096 <= one_turn(budget, [MANY] * 511 + [FEW], 1000) <= READ_SIZE_MAX

    assert one_turn(ReadBudget(), [MANY], 1) == READ_SIZE_MAX
