"""Runs blocking calls in threads, off the event loop."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a call that may block (fsync, compression, DNS) in a thread and return its result.

    If the awaiting task is cancelled, the cancellation is delivered only after the call has finished: a lock held
    around the call stays held until the thread is done.
    """
    return await _uncancelled(asyncio.to_thread(function, *args, **kwargs), function)


class ThreadPool:
    """Threads for calls that must not wait behind the calls of others.

    All calls of `in_thread` share one pool, which may be full. These threads start with the first calls.
    """

    def __init__(self, name: str, count: int = 1) -> None:
        self._name = name
        self._count = count
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what `in_thread` does, in a thread of this pool."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        call = functools.partial(function, *args, **kwargs)
        return await _uncancelled(asyncio.get_running_loop().run_in_executor(self._executor, call), function)

    def close(self) -> None:
        """Stop the threads after their current calls, without waiting; a later `run` starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


async def _uncancelled(running: Awaitable[R], function: object) -> R:
    call = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        if not call.cancelled() and (error := call.exception()) is not None:
            log.error("%s failed after its caller was cancelled", function, exc_info=error)
        raise
