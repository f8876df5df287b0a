"""An event loop in a background thread, for callers in other threads; one per process, created on first use."""

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

from kerolox.client.errors import WrongState

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

# Handlers and callbacks of users run in these threads. They may call blocking methods, which may need another thread.
_EXECUTOR_THREADS_MAX: Final = 64
# How long the exit of the interpreter waits for cancelled tasks.
_END_SECONDS: Final = 2.0


class LoopThread:
    """A daemon thread that runs an event loop until the interpreter exits."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _current: ClassVar["LoopThread | None"] = None

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Executor(_EXECUTOR_THREADS_MAX, thread_name_prefix="kerolox"))
        self._thread = threading.Thread(target=self._run, name="kerolox event loop", daemon=True)
        self._is_ending = False
        self._kept: set[asyncio.Task[Any]] = set()
        self._thread.start()

    @classmethod
    def current(cls) -> "LoopThread":
        """Return the LoopThread of this process. A forked child, which has no threads of its parent, gets its own."""
        current = cls._current
        if current is None:
            with cls._lock:
                current = cls._current
                if current is None:
                    current = cls._current = cls()
                    atexit.register(current.end)
        return current

    @classmethod
    def _forget(cls) -> None:
        """Forget the parent's loop, right after a fork in the child.

        The loop is not closed, because that would change the epoll instance that both processes share. Its tasks are
        kept alive: a task that is garbage collected runs its cleanup, which would close the parent's connections.
        """
        cls._lock = threading.Lock()
        if cls._current is not None:
            cls._current._kept = asyncio.all_tasks(cls._current._loop)
            atexit.unregister(cls._current.end)
            cls._current = None

    def wait(self, coroutine: Coroutine[Any, Any, R], on_interrupt: Callable[[], object] | None = None) -> R:
        """Run the coroutine on the loop; return its result or raise its exception.

        An exception in the waiting thread, such as KeyboardInterrupt, is raised at once. Then the coroutine is
        cancelled, and `on_interrupt` is called on the loop, because the coroutine may have finished already.
        """
        return self.result(self.submit(coroutine), on_interrupt)

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
        """Start the coroutine on the loop and return its future; raise WrongState if waiting would never end."""
        error = None
        if self._is_ending:
            error = "the interpreter is exiting, and the event loop of its clients has stopped"
        elif threading.current_thread() is self._thread:
            error = (
                "blocking call in the event loop thread, which would deadlock: use the asyncio client in selectors, "
                "hooks and coroutines, which run in that thread; plain functions do not"
            )
        if error is not None:
            coroutine.close()
            raise WrongState(error)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, future: "Future[R]", on_interrupt: Callable[[], object] | None = None) -> R:
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            if self._is_ending:
                # Only daemon threads can still be waiting. They wait until the interpreter kills them, silently.
                threading.Event().wait()
            raise WrongState("cancelled, because the client was closed") from error
        except BaseException as error:
            is_from_coroutine = future.done() and not future.cancelled() and future.exception() is error
            if not is_from_coroutine:
                future.cancel()
                if on_interrupt is not None:
                    self.call(on_interrupt)
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, without waiting for it."""
        with contextlib.suppress(RuntimeError):  # The loop is closed; there is nothing left to change.
            self._loop.call_soon_threadsafe(function)

    def end(self) -> None:
        """Cancel all tasks and stop the thread."""
        self._is_ending = True
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(2 * _END_SECONDS)
        self.call(self._loop.stop)
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_ending:
            try:
                self._loop.run_forever()
            except BaseException:
                # run_forever raises SystemExit and KeyboardInterrupt of tasks. Go on: other threads wait for the loop.
                log.exception("a task tried to stop the event loop")
        self._loop.close()


class _Executor(ThreadPoolExecutor):
    """Works also after the main thread has ended, when a ThreadPoolExecutor accepts no more work."""

    def submit(self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs) -> "Future[R]":
        try:
            return super().submit(function, *args, **keywords)
        except RuntimeError:
            future: Future[R] = Future()
            work = partial(function, *args, **keywords)
            threading.Thread(target=_settle, args=[future, work], name="kerolox late", daemon=True).start()
            return future


def _settle(future: "Future[R]", function: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_END_SECONDS)


os.register_at_fork(after_in_child=LoopThread._forget)
