"""Services: opened in order, closed in reverse, stopped together."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kerolox.errors import ServiceFailed
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import LazyService, Periodic, Service, Step, Supervisor


class RecordingService(Service):
    """Records its calls in `events`, and fails in the method named `fails_at`, or when `fails` is set."""

    def __init__(self, name: str, events: list[str], *, fails_at: str = "") -> None:
        self.name = name
        self.events = events
        self.fails_at = fails_at
        self.fails = asyncio.Event()

    async def open(self) -> None:
        self._record("open")

    async def run(self) -> None:
        self._record("run")
        try:
            await self.fails.wait()
            raise RuntimeError(f"{self.name} cannot go on")
        finally:
            self.events.append(f"end {self.name}")

    async def close(self) -> None:
        self._record("close")

    async def fail(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> None:
        """Make `run` fail, and wait for `meanwhile`, by default forever."""
        self.fails.set()
        await (meanwhile or asyncio.Event().wait)()

    def _record(self, what: str) -> None:
        self.events.append(f"{what} {self.name}")
        if self.fails_at == what:
            raise RuntimeError(f"{self.name} cannot {what}")


async def loop_turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_services_open_in_order_and_close_in_reverse() -> None:
    events: list[str] = []

    async with Supervisor(RecordingService("a", events), RecordingService("b", events)):
        await loop_turns()
        events.append("work")

    assert events == ["open a", "open b", "run a", "run b", "work", "end a", "end b", "close b", "close a"]


async def test_a_failure_stops_all_services_and_is_raised() -> None:
    events: list[str] = []
    failing, other = RecordingService("a", events), RecordingService("b", events)

    with pytest.raises(ServiceFailed, match="RecordingService failed: RuntimeError: a cannot go on") as raised:
        async with Supervisor(failing, other) as supervisor:
            await failing.fail(supervisor.wait)

    assert isinstance(raised.value.__cause__, RuntimeError)
    assert events[-3:] == ["end b", "close b", "close a"]


async def test_a_failure_interrupts_a_body_that_waits_for_something_else() -> None:
    events: list[str] = []
    failing, other = RecordingService("a", events), RecordingService("b", events)

    with pytest.raises(ServiceFailed, match="a cannot go on"):
        async with Supervisor(failing, other):
            await failing.fail()

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    # The task can wait again: no cancellation is left over.
    await asyncio.sleep(0)


async def test_a_failure_at_the_start_of_run_is_raised() -> None:
    failing = RecordingService("a", [])
    failing.fails.set()

    with pytest.raises(ServiceFailed, match="a cannot go on"):
        async with Supervisor(failing):
            await asyncio.Event().wait()


async def test_a_failure_is_raised_even_if_the_body_swallowed_the_cancellation() -> None:
    failing = RecordingService("a", [])

    with pytest.raises(ServiceFailed, match="a cannot go on"):
        async with Supervisor(failing):
            await asyncio.gather(failing.fail(), return_exceptions=True)


async def test_services_are_closed_after_a_failure_without_an_explicit_close() -> None:
    events: list[str] = []
    failing, other = RecordingService("a", events), RecordingService("b", events)
    supervisor = Supervisor(failing, other)
    await supervisor.open()
    failing.fails.set()

    with pytest.raises(ServiceFailed, match="a cannot go on"):
        await supervisor.wait()

    assert events[-3:] == ["end b", "close b", "close a"]


async def test_errors_inside_exception_groups_are_unwrapped() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("no luck\nand more")

    class Grouped(Service):
        async def run(self) -> None:
            async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
                outer.create_task(asyncio.Event().wait())
                inner.create_task(fail())

    with pytest.raises(ServiceFailed, match=r"^Grouped failed: ZeroDivisionError: no luck$") as raised:
        async with Supervisor(Grouped()):
            await asyncio.Event().wait()

    assert isinstance(raised.value.__cause__, ZeroDivisionError)


async def test_a_failure_in_a_nested_supervisor_stops_the_outer_one_with_the_same_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[str] = []
    failing = RecordingService("a", events)
    inner = Supervisor(failing, RecordingService("b", events))

    with pytest.raises(
        ServiceFailed, match=r"^Supervisor failed: RecordingService failed: RuntimeError: a cannot go on$"
    ) as raised:
        async with Supervisor(RecordingService("first", events), inner, RecordingService("last", events)):
            await failing.fail()

    assert isinstance(raised.value.__cause__, RuntimeError)
    assert [event for event in events if event.startswith("close")] == [
        "close b",
        "close a",
        "close last",
        "close first",
    ]
    assert caplog.messages == ["RecordingService failed"]


async def test_a_nested_failure_is_raised_although_the_outer_supervisor_is_already_stopping() -> None:
    failing = RecordingService("a", [])
    inner = Supervisor(failing)
    outer = Supervisor(inner)
    await outer.open()
    await loop_turns()
    failing.fails.set()

    with pytest.raises(ServiceFailed, match="Supervisor failed: RecordingService failed: RuntimeError: a cannot go on"):
        await outer.close()


async def test_a_service_that_raises_cancelled_error_itself_has_failed() -> None:
    class Cancelled(Service):
        async def run(self) -> None:
            raise asyncio.CancelledError

    with pytest.raises(ServiceFailed, match="Cancelled failed: it was cancelled"):
        async with Supervisor(Cancelled()):
            await asyncio.Event().wait()


async def test_an_error_of_the_body_is_added_as_a_note_to_the_failure() -> None:
    failing = RecordingService("a", [])

    async def body() -> None:
        try:
            await failing.fail()
        except asyncio.CancelledError:
            raise KeyError("orders") from None

    with pytest.raises(ServiceFailed, match="a cannot go on") as raised:
        async with Supervisor(failing):
            await body()

    assert raised.value.__notes__ == ["The body of `async with` had raised KeyError('orders')"]
    assert isinstance(raised.value.__context__, KeyError)


async def test_an_outside_cancellation_takes_precedence_over_a_simultaneous_failure() -> None:
    failing = RecordingService("a", [])
    inside = asyncio.Event()

    async def body() -> None:
        async with Supervisor(failing):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await inside.wait()
    await loop_turns()
    failing.fails.set()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_during_the_cancellation_of_a_service_is_raised() -> None:
    class FailsWhenCancelled(Service):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError(5, "cannot stop")

    with pytest.raises(ServiceFailed, match="cannot stop"):
        async with Supervisor(FailsWhenCancelled()):
            await loop_turns()


async def test_a_caller_that_is_cancelled_while_services_close_waits_until_they_are_closed() -> None:
    events: list[str] = []
    may_close = asyncio.Event()

    class Slow(RecordingService):
        async def close(self) -> None:
            events.append("closing")
            await may_close.wait()
            await super().close()

    supervisor = Supervisor(RecordingService("a", events), Slow("b", events))
    await supervisor.open()
    closing = asyncio.create_task(supervisor.close())
    while "closing" not in events:
        await asyncio.sleep(0)
    closing.cancel()
    await loop_turns()
    may_close.set()

    with pytest.raises(asyncio.CancelledError):
        await closing

    assert events[-2:] == ["close b", "close a"]


async def test_steps_are_called_in_order() -> None:
    events: list[str] = []

    async def opening() -> None:
        events.append("opening")

    steps = Step(closing=lambda: events.append("closing")), Step(opening=opening)
    async with Supervisor(steps[0], RecordingService("a", events), steps[1]):
        pass

    assert events[:2] == ["open a", "opening"]
    assert events[-2:] == ["close a", "closing"]


async def test_a_service_that_fails_to_open_closes_the_services_before_it() -> None:
    events: list[str] = []

    with pytest.raises(RuntimeError, match="b cannot open"):
        async with Supervisor(
            RecordingService("a", events), RecordingService("b", events, fails_at="open"), RecordingService("c", events)
        ):
            raise AssertionError

    assert events == ["open a", "open b", "close a"]


async def test_a_failing_close_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[str] = []

    async with Supervisor(RecordingService("a", events), RecordingService("b", events, fails_at="close")):
        await loop_turns()

    assert events[-2:] == ["close b", "close a"]
    assert caplog.messages == ["RecordingService did not close cleanly"]


async def test_a_supervisor_keeps_waiting_after_all_services_returned() -> None:
    async with Supervisor(Service()) as supervisor:
        waiting = asyncio.create_task(supervisor.wait())
        await loop_turns()

        assert not waiting.done()
        waiting.cancel()


async def test_an_error_of_the_body_is_raised_after_all_services_are_closed() -> None:
    events: list[str] = []

    with pytest.raises(KeyError):
        async with Supervisor(RecordingService("a", events)):
            raise KeyError

    assert events[-1] == "close a"


async def test_a_periodic_job_runs_after_every_period() -> None:
    clock = ManualClock(millis=0)
    moments: list[int] = []
    job = Periodic("tick", seconds=10, job=lambda: moments.append(clock.millis()), clock=clock)

    async with Supervisor(job):
        await clock.advance(35)

    assert moments == [10_000, 20_000, 30_000]


async def test_the_first_run_of_a_periodic_job_may_be_earlier() -> None:
    clock = ManualClock(millis=0)
    moments: list[int] = []

    async def job() -> None:
        moments.append(clock.millis())

    async with Supervisor(Periodic("tick", seconds=10, job=job, clock=clock, first_seconds=1)):
        await clock.advance(25)

    assert moments == [1_000, 11_000, 21_000]


async def test_a_failing_periodic_job_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    runs = 0

    def job() -> None:
        nonlocal runs
        runs += 1
        raise ZeroDivisionError("no luck")

    async with Supervisor(Periodic("unlucky", seconds=1, job=job, clock=clock)):
        await clock.advance(3.5)

    assert runs == 3
    assert caplog.messages == ["periodic job 'unlucky' failed"] * 3
    assert "ZeroDivisionError: no luck" in caplog.text


async def test_cancelling_open_closes_the_service_being_opened() -> None:
    events: list[str] = []
    may_open = asyncio.Event()

    class Slow(RecordingService):
        async def open(self) -> None:
            await may_open.wait()
            await super().open()

    supervisor = Supervisor(RecordingService("a", events), Slow("b", events), RecordingService("c", events))
    entering = asyncio.create_task(supervisor.__aenter__())
    while events != ["open a"]:
        await asyncio.sleep(0)
    await loop_turns()
    entering.cancel()
    await loop_turns()
    may_open.set()

    with pytest.raises(asyncio.CancelledError):
        await entering

    assert events == ["open a", "open b", "close b", "close a"]


async def test_a_lazy_service_is_created_after_the_services_before_it_are_open() -> None:
    events: list[str] = []

    def make() -> Service:
        events.append("make")
        return RecordingService("late", events)

    async with Supervisor(RecordingService("first", events), LazyService(make, then=lambda _: events.append("then"))):
        await loop_turns()

    assert events[:4] == ["open first", "make", "open late", "then"]
    assert events[-2:] == ["close late", "close first"]


async def test_a_failing_optional_service_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    events: list[str] = []
    other, spare = RecordingService("other", events), RecordingService("spare", events)
    async with Supervisor(other, LazyService(lambda: spare, is_needed=False)) as supervisor:
        waiting = asyncio.create_task(supervisor.wait())
        await loop_turns()
        spare.fails.set()
        await loop_turns()

        assert "end spare" in events
        assert not waiting.done()
        assert "RecordingService failed; the other services continue" in caplog.text
        waiting.cancel()
        await asyncio.wait([waiting])
