"""Runs a function in a forked process."""

import multiprocessing
import warnings
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def in_fork(function: Callable[[], R]) -> R:
    """Return the result of the function in a forked child."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(function()), daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns of forks of processes with threads, which these tests do on purpose.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    writer.close()
    result: R = reader.recv()
    child.join(30)
    assert child.exitcode == 0
    return result
