"""An event loop in a thread of its own, for those who call from elsewhere; one for each process, made when needed."""

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

# Functions that users gave run in these, and may call what blocks, which may need another to be free.
_EXECUTOR_THREADS_MAX: Final = 64
# How long the end of the interpreter waits for what is cancelled.
_END_SECONDS: Final = 2.0


class LoopThread:
    """A daemon thread that ends with the interpreter."""

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
        """Returns that of this process; a fork has none of its parent's threads, and gets its own."""
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
        """What a child does first. The parent's loop is not ended: that would change the epoll that both share.

        Its tasks are kept for good, by the thread's own frame, which never returns here: each has something to do
        when it is thrown away, such as closing the parent's connections.
        """
        cls._lock = threading.Lock()
        if cls._current is not None:
            cls._current._kept = asyncio.all_tasks(cls._current._loop)
            atexit.unregister(cls._current.end)
            cls._current = None

    def wait(self, coroutine: Coroutine[Any, Any, R], on_interrupt: Callable[[], object] | None = None) -> R:
        """Returns what the coroutine does, or raises what it raises.

        An exception that comes to the waiting thread, such as KeyboardInterrupt, gets through at once: the coroutine
        is cancelled, and `on_interrupt` called on the loop, since the result may have been under way.
        """
        return self.result(self.submit(coroutine), on_interrupt)

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
        """Has the coroutine begun, and returns its result to be; WrongState if waiting for it would never end."""
        complaint = None
        if self._is_ending:
            complaint = "the interpreter ends, and the event loop of its clients has ended"
        elif threading.current_thread() is self._thread:
            complaint = (
                "a blocking call on the event loop that would have to answer it: selectors, hooks and coroutines "
                "run there, plain functions do not"
            )
        if complaint is not None:
            coroutine.close()
            raise WrongState(complaint)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, future: "Future[R]", on_interrupt: Callable[[], object] | None = None) -> R:
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            if self._is_ending:
                # Only daemon threads still wait for something now. They end with the interpreter, without a word.
                threading.Event().wait()
            raise WrongState("cancelled by a client that was closed meanwhile") from error
        except BaseException as error:
            is_from_coroutine = future.done() and not future.cancelled() and future.exception() is error
            if not is_from_coroutine:
                future.cancel()
                if on_interrupt is not None:
                    self.call(on_interrupt)
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Has a function called on the loop, and does not wait for it."""
        with contextlib.suppress(RuntimeError):  # The loop has ended, and with it what the function would change.
            self._loop.call_soon_threadsafe(function)

    def end(self) -> None:
        """Cancels all that runs, and ends the thread."""
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
                # asyncio lets SystemExit through, and all other threads would wait for ever.
                log.exception("something on the event loop tried to end it")
        self._loop.close()


class _Executor(ThreadPoolExecutor):
    """One that goes on when the main thread has ended and others have not; pools take no more from then on."""

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
