"""Runs work in a separate process, so that its cost is visible from outside and a crash is real."""

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
    """Calls a function in a new process and returns its result."""
    return _call(function, args, kwargs, is_killed=False)


def in_killed_child(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls a function in a new process, and kills the process as soon as the function has returned."""
    return _call(function, args, kwargs, is_killed=True)


def _call(function: Callable[..., R], args: Any, kwargs: Any, *, is_killed: bool) -> R:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(there, function, args, kwargs, is_killed))
    process.start()
    there.close()
    try:
        result: R = here.recv()
    except EOFError:
        raise RuntimeError(f"the process that called {function.__name__} ended before it returned") from None
    finally:
        process.join()
    return result


def _run(result: Connection, function: Callable[..., object], args: Any, kwargs: Any, is_killed: bool) -> None:
    result.send(function(*args, **kwargs))
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
