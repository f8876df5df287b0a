"""What is typed, comes through a pipe or is in a file, as lines; a wait for it never holds up the end of a command."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

_READ_SIZE = 1 << 16


async def lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yields lines as they come, without their ends; what is typed is there when it is."""
    # A stream with a buffer is locked by who reads from it, and Python cannot end while it is.
    source = getattr(stream, "raw", stream)
    rest = b""
    while chunk := await _aside(lambda: source.read(_READ_SIZE)):
        *whole, rest = (rest + chunk).split(b"\n")
        # A message has a body: an empty line is none.
        for line in filter(None, whole):
            yield line
    if rest:
        yield rest


async def _aside(read: Callable[[], bytes]) -> bytes:
    """Reads in a thread that nobody waits for: it may be a long time until somebody types."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bytes] = loop.create_future()

    def tell(data: bytes, error: OSError | None) -> None:
        if found.cancelled():
            return
        if error is None:
            found.set_result(data)
        else:
            found.set_exception(error)

    def work() -> None:
        data, failure = b"", None
        try:
            data = read()
        except OSError as error:
            failure = error
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, data, failure)

    threading.Thread(target=work, daemon=True).start()
    return await found
