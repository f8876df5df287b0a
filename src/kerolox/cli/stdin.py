"""Reads lines from a terminal, pipe or file, without delaying the exit of a command that waits for input."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

_READ_SIZE = 1 << 16


async def read_lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield lines as they arrive, without line ends. Empty lines are skipped, since a message needs a body."""
    # A thread that reads from a buffered stream holds its lock, and Python cannot exit while it does. Read the raw
    # stream instead.
    source = getattr(stream, "raw", stream)
    rest = b""
    while chunk := await _read_in_thread(lambda: source.read(_READ_SIZE)):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            yield line
    if rest:
        yield rest


async def _read_in_thread(read: Callable[[], bytes]) -> bytes:
    """Read in a daemon thread, which nothing joins: the next line may never be typed."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def deliver(data: bytes, error: OSError | None) -> None:
        if result.cancelled():
            return
        if error is None:
            result.set_result(data)
        else:
            result.set_exception(error)

    def work() -> None:
        data, failure = b"", None
        try:
            data = read()
        except OSError as error:
            failure = error
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, data, failure)

    threading.Thread(target=work, daemon=True).start()
    return await result
