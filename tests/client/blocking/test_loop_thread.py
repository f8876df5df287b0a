"""The event loop in a background thread."""

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

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.errors import WrongState
from tests.client.forks import in_fork


def interrupt_main_thread() -> None:
    """Send SIGINT once the main thread waits for the result of a future.

    Repeated if necessary: a signal between the Python line that waits and its system call does not wake the thread.
    """
    main = threading.main_thread().ident
    assert main is not None
    while not _is_waiting(waiting := sys._current_frames()[main]):
        os.sched_yield()
    while sys._current_frames()[main] is waiting and _is_waiting(waiting):
        signal.pthread_kill(main, signal.SIGINT)
        threading.Event().wait(0.2)


def _is_waiting(frame: FrameType) -> bool:
    # Elsewhere in Condition.wait an interrupt would find the lock released, and raise another error.
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line == "waiter.acquire()" and frame.f_back is not None and frame.f_back.f_code is Future.result.__code__


def start_interrupting() -> threading.Thread:
    """Start a thread that interrupts the main thread."""
    thread = threading.Thread(target=interrupt_main_thread, daemon=True)
    thread.start()
    return thread


class Endless:
    """A coroutine that waits forever, with events for its start and cancellation."""

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


def test_all_threads_of_a_process_share_one_loop() -> None:
    found: list[LoopThread] = []
    threads = [threading.Thread(target=lambda: found.append(LoopThread.current())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(found) == {LoopThread.current()}


def test_wait_raises_the_exception_of_the_coroutine() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        LoopThread.current().wait(fail())


def test_system_exit_is_raised_in_the_caller_and_the_loop_continues() -> None:
    loop_thread = LoopThread.current()

    async def leave() -> None:
        raise SystemExit(3)

    async def stay() -> int:
        return 4

    with pytest.raises(SystemExit):
        loop_thread.wait(leave())

    assert loop_thread.wait(stay()) == 4


def test_an_interrupt_is_raised_and_cancels_the_coroutine() -> None:
    endless, notified = Endless(), threading.Event()
    start_interrupting()

    with pytest.raises(KeyboardInterrupt):
        LoopThread.current().wait(endless.run(), on_interrupt=notified.set)

    assert endless.cancelled.wait(30)
    assert notified.wait(30)


def test_an_exception_of_the_coroutine_does_not_call_on_interrupt() -> None:
    notified: list[str] = []

    async def fail() -> None:
        raise ValueError("no")

    async def nothing() -> None:
        """Run after a callback that was scheduled before."""

    with pytest.raises(ValueError, match="no"):
        LoopThread.current().wait(fail(), on_interrupt=lambda: notified.append("interrupt"))
    LoopThread.current().wait(nothing())

    assert notified == []


def test_waiting_in_the_loop_thread_raises_instead_of_deadlocking() -> None:
    loop_thread = LoopThread.current()

    async def nothing() -> None:
        raise AssertionError

    async def wait_here() -> None:
        loop_thread.wait(nothing())

    with pytest.raises(WrongState, match="which would deadlock"):
        loop_thread.wait(wait_here())


def test_a_fork_gets_its_own_loop_and_the_parent_keeps_its_loop() -> None:
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
def test_the_interpreter_exits_while_a_thread_waits(ending: str) -> None:
    script = (
        "import asyncio, threading\n"
        "from kerolox.client.blocking.loop_thread import LoopThread\n"
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


def test_submit_after_end_raises() -> None:
    loop_thread, endless = LoopThread(), Endless()
    # Without a reference the garbage collector may destroy the task.
    future = loop_thread.submit(endless.run())
    assert endless.begun.wait(30)

    loop_thread.end()

    assert endless.cancelled.is_set()
    assert future.cancelled()
    with pytest.raises(WrongState, match="the interpreter is exiting"):
        loop_thread.wait(endless.run())


def test_a_cancelled_coroutine_raises_wrong_state() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(WrongState, match="the client was closed"):
        LoopThread.current().wait(cancelled())
