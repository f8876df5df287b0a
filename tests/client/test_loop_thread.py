"""The event loop in a thread of its own."""

import asyncio
import linecache
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from types import FrameType

import pytest

from kerolox.client.errors import WrongState
from kerolox.client.loop_thread import LoopThread
from tests.client.forks import in_fork


def interrupt_main_thread() -> None:
    """Sends SIGINT once the main thread waits for the result of a future.

    Again if need be: between the line that waits and the system call that does, nothing wakes it.
    """
    main = threading.main_thread().ident
    assert main is not None
    while not _is_waiting(waiting := sys._current_frames()[main]):
        os.sched_yield()
    while sys._current_frames()[main] is waiting and _is_waiting(waiting):
        signal.pthread_kill(main, signal.SIGINT)
        threading.Event().wait(0.2)


def _is_waiting(frame: FrameType) -> bool:
    # Elsewhere in Condition.wait an interrupt would find it without its lock, and leave it with another error.
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line == "waiter.acquire()" and frame.f_back is not None and frame.f_back.f_code is Future.result.__code__


def interrupted() -> threading.Thread:
    """Begins to watch for that."""
    thread = threading.Thread(target=interrupt_main_thread, daemon=True)
    thread.start()
    return thread


class Endless:
    """Waits without end, and says when it began and that it was cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_all_threads_of_a_process_have_one_loop() -> None:
    found: list[LoopThread] = []
    threads = [threading.Thread(target=lambda: found.append(LoopThread.current())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(found) == {LoopThread.current()}


def test_what_a_coroutine_raises_is_raised_where_it_is_waited_for() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        LoopThread.current().wait(fail())


def test_what_wants_to_end_the_program_ends_the_caller_and_not_the_loop() -> None:
    loop_thread = LoopThread.current()

    async def leave() -> None:
        raise SystemExit(3)

    async def stay() -> int:
        return 4

    with pytest.raises(SystemExit):
        loop_thread.wait(leave())

    assert loop_thread.wait(stay()) == 4


def test_an_interrupt_gets_through_and_cancels_what_was_asked() -> None:
    endless, told = Endless(), threading.Event()
    interrupted()

    with pytest.raises(KeyboardInterrupt):
        LoopThread.current().wait(endless.run(), on_interrupt=told.set)

    assert endless.cancelled.wait(30)
    assert told.wait(30)


def test_an_error_of_the_coroutine_is_no_interrupt() -> None:
    told: list[str] = []

    async def fail() -> None:
        raise ValueError("no")

    async def nothing() -> None:
        """Comes after what might have been called."""

    with pytest.raises(ValueError, match="no"):
        LoopThread.current().wait(fail(), on_interrupt=lambda: told.append("interrupt"))
    LoopThread.current().wait(nothing())

    assert told == []


def test_waiting_on_the_loop_for_the_loop_is_an_error_and_no_deadlock() -> None:
    loop_thread = LoopThread.current()

    async def nothing() -> None:
        raise AssertionError

    async def wait_here() -> None:
        loop_thread.wait(nothing())

    with pytest.raises(WrongState, match="on the event loop that would have to answer it"):
        loop_thread.wait(wait_here())


def test_what_a_fork_gets_is_a_loop_of_its_own_and_the_parent_keeps_its() -> None:
    before = LoopThread.current()

    async def process_id() -> int:
        return os.getpid()

    def child() -> tuple[bool, bool]:
        return LoopThread.current() is not before, LoopThread.current().wait(process_id()) == os.getpid()

    assert in_fork(child) == (True, True)
    assert LoopThread.current() is before
    assert before.wait(process_id()) == os.getpid()


@pytest.mark.parametrize(
    "ending",
    ["", "raise SystemExit(0)", "import os; pid = os.fork(); pid and os.waitpid(pid, 0)"],
    ids=["falling off the end", "SystemExit", "after a fork"],
)
def test_an_interpreter_ends_while_something_waits(ending: str) -> None:
    script = (
        "import asyncio, threading\n"
        "from kerolox.client.loop_thread import LoopThread\n"
        "begun = threading.Event()\n"
        "async def endless():\n"
        "    begun.set()\n"
        "    await asyncio.Event().wait()\n"
        "threading.Thread(target=lambda: LoopThread.current().wait(endless()), daemon=True).start()\n"
        "begun.wait()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", script + ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_who_asks_when_the_interpreter_ends_is_told() -> None:
    loop_thread, endless = LoopThread(), Endless()
    loop_thread.submit(endless.run())
    assert endless.begun.wait(30)

    loop_thread.end()

    assert endless.cancelled.is_set()
    with pytest.raises(WrongState, match="the interpreter ends"):
        loop_thread.wait(endless.run())


def test_what_another_cancelled_is_an_error_for_who_waits() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(WrongState, match="closed meanwhile"):
        LoopThread.current().wait(cancelled())
