"""Runs functions in a separate process, to measure its memory and to kill it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_child(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a new process and return its result."""
    return _call(function, args, kwargs, is_killed=False)


def in_killed_child(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a new process, and kills the process as soon as the function has returned."""
    return _call(function, args, kwargs, is_killed=True)


def _call(function: Callable[..., R], args: Any, kwargs: Any, *, is_killed: bool) -> R:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, function, args, kwargs, is_killed))
    process.start()
    sender.close()
    try:
        result: R = receiver.recv()
    except EOFError:
        raise RuntimeError(f"the process that called {function.__name__} ended before it returned") from None
    finally:
        process.join()
    return result


def _run(result: Connection, function: Callable[..., object], args: Any, kwargs: Any, is_killed: bool) -> None:
    result.send(function(*args, **kwargs))
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
