"""Doing something in a fork of this process."""

import multiprocessing
import warnings
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def in_fork(function: Callable[[], R]) -> R:
    """Returns what the function does in a child that shares nothing but what was there before it began."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(function()), daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns of forks of processes with threads, which is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    writer.close()
    result: R = reader.recv()
    child.join(30)
    assert child.exitcode == 0
    return result
