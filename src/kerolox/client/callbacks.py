"""Calling what users gave us: a coroutine on the event loop, a plain function in a thread, since it may block."""

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kerolox.runtime.blocking import in_thread

T = TypeVar("T")
R = TypeVar("R")

Callback = Callable[[T], R | Awaitable[R]]


async def call_back(function: Callback[T, R], argument: T) -> R:
    """Returns what the function does, or raises what it raises."""
    called = getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        result = function(argument)
    else:
        result = await in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result
