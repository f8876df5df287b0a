"""Where blocking calls go: a thread, never the event loop."""

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a call that may block (fsync, compression, DNS) and returns what it returned.

    The call is carried to its end even if the waiting task is cancelled, and the cancellation waits for it:
    whoever holds a lock around the call holds it until the thread is done.
    """
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        if not call.cancelled() and (error := call.exception()) is not None:
            log.error("%s failed after its caller was cancelled", function, exc_info=error)
        raise
