"""Calls functions of users: coroutine functions on the event loop, plain functions in a thread, as they may block."""

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kerolox.runtime.threads import in_thread

T = TypeVar("T")
R = TypeVar("R")

Callback = Callable[[T], R | Awaitable[R]]


async def call_back(function: Callback[T, R], argument: T) -> R:
    """Return what the function returns, or raise what it raises."""
    call_method = getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call_method):
        result = function(argument)
    else:
        result = await in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result
