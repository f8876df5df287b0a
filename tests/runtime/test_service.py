"""Services: opened in order, closed in reverse, ended together."""

import asyncio

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import Late, Periodic, Service, Supervisor


class Noted(Service):
    """A service that notes what happens to it, and fails where it is told to."""

    def __init__(self, name: str, events: list[str], *, fails_at: str = "") -> None:
        self.name = name
        self.events = events
        self.fails_at = fails_at
        self.fails = asyncio.Event()

    async def open(self) -> None:
        self._note("open")

    async def run(self) -> None:
        self._note("run")
        try:
            await self.fails.wait()
            raise RuntimeError(f"{self.name} cannot go on")
        finally:
            self.events.append(f"end {self.name}")

    async def close(self) -> None:
        self._note("close")

    def _note(self, what: str) -> None:
        self.events.append(f"{what} {self.name}")
        if self.fails_at == what:
            raise RuntimeError(f"{self.name} cannot {what}")


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_services_open_in_order_and_close_in_reverse() -> None:
    events: list[str] = []

    async with Supervisor(Noted("a", events), Noted("b", events)):
        await turn()
        events.append("work")

    assert events == ["open a", "open b", "run a", "run b", "work", "end a", "end b", "close b", "close a"]


async def test_one_failure_ends_all_and_is_raised() -> None:
    events: list[str] = []
    failing, other = Noted("a", events), Noted("b", events)
    failing.fails.set()

    with pytest.raises(RuntimeError, match="a cannot go on"):
        async with Supervisor(failing, other) as supervisor:
            await supervisor.wait()

    assert events[-3:] == ["end b", "close b", "close a"]


async def test_a_service_that_cannot_open_closes_those_before_it() -> None:
    events: list[str] = []

    with pytest.raises(RuntimeError, match="b cannot open"):
        async with Supervisor(Noted("a", events), Noted("b", events, fails_at="open"), Noted("c", events)):
            raise AssertionError

    assert events == ["open a", "open b", "close a"]


async def test_a_service_that_does_not_close_cleanly_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[str] = []

    async with Supervisor(Noted("a", events), Noted("b", events, fails_at="close")):
        await turn()

    assert events[-2:] == ["close b", "close a"]
    assert caplog.messages == ["Noted did not close cleanly"]


async def test_a_supervisor_whose_services_have_nothing_to_do_waits_on() -> None:
    async with Supervisor(Service()) as supervisor:
        waiting = asyncio.create_task(supervisor.wait())
        await turn()

        assert not waiting.done()
        waiting.cancel()


async def test_what_is_raised_inside_is_raised_after_all_are_closed() -> None:
    events: list[str] = []

    with pytest.raises(KeyError):
        async with Supervisor(Noted("a", events)):
            raise KeyError

    assert events[-1] == "close a"


async def test_a_periodic_job_runs_after_every_period() -> None:
    clock = ManualClock(millis=0)
    moments: list[int] = []
    job = Periodic("tick", seconds=10, job=lambda: moments.append(clock.millis()), clock=clock)

    async with Supervisor(job):
        await clock.advance(35)

    assert moments == [10_000, 20_000, 30_000]


async def test_the_first_run_of_a_periodic_job_may_come_earlier() -> None:
    clock = ManualClock(millis=0)
    moments: list[int] = []

    async def job() -> None:
        moments.append(clock.millis())

    async with Supervisor(Periodic("tick", seconds=10, job=job, clock=clock, first_seconds=1)):
        await clock.advance(25)

    assert moments == [1_000, 11_000, 21_000]


async def test_a_periodic_job_that_fails_is_logged_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_who_is_told_to_stop_while_it_opens_closes_that_one_too() -> None:
    events: list[str] = []
    may_open = asyncio.Event()

    class Slow(Noted):
        async def open(self) -> None:
            await may_open.wait()
            await super().open()

    supervisor = Supervisor(Noted("a", events), Slow("b", events), Noted("c", events))
    entering = asyncio.create_task(supervisor.__aenter__())
    while events != ["open a"]:
        await asyncio.sleep(0)
    await turn()
    entering.cancel()
    await turn()
    may_open.set()

    with pytest.raises(asyncio.CancelledError):
        await entering

    assert events == ["open a", "open b", "close b", "close a"]


async def test_a_late_service_is_made_when_those_before_it_are_open() -> None:
    events: list[str] = []

    def make() -> Service:
        events.append("make")
        return Noted("late", events)

    async with Supervisor(Noted("first", events), Late(make, then=lambda _: events.append("then"))):
        await turn()

    assert events[:4] == ["open first", "make", "open late", "then"]
    assert events[-2:] == ["close late", "close first"]


async def test_a_service_that_is_not_needed_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    events: list[str] = []
    other, spare = Noted("other", events), Noted("spare", events)
    async with Supervisor(other, Late(lambda: spare, is_needed=False)) as supervisor:
        waiting = asyncio.create_task(supervisor.wait())
        await turn()
        spare.fails.set()
        await turn()

        assert "end spare" in events
        assert not waiting.done()
        assert "Noted failed; the rest goes on" in caplog.text
        waiting.cancel()
        await asyncio.wait([waiting])
