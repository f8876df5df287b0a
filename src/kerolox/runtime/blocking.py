"""Where blocking calls go: a thread, never the event loop."""

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
    """Runs a call that may block (fsync, compression, DNS) and returns what it returned.

    The call is carried to its end even if the waiting task is cancelled, and the cancellation waits for it:
    whoever holds a lock around the call holds it until the thread is done.
    """
    return await _carried_out(asyncio.to_thread(function, *args, **kwargs), function)


class OwnThreads:
    """So many threads for calls that must not wait for those of others.

    All of `in_thread` share some threads, and may fill them. These begin with the first calls.
    """

    def __init__(self, name: str, count: int = 1) -> None:
        self._name = name
        self._count = count
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Does what `in_thread` does."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        call = functools.partial(function, *args, **kwargs)
        return await _carried_out(asyncio.get_running_loop().run_in_executor(self._executor, call), function)

    def close(self) -> None:
        """Ends the threads when what they do is done; the next call begins others."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


async def _carried_out(running: Awaitable[R], function: object) -> R:
    call = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        if not call.cancelled() and (error := call.exception()) is not None:
            log.error("%s failed after its caller was cancelled", function, exc_info=error)
        raise
