"""A lean socket transport for accepted connections, in place of that of asyncio."""

import asyncio
import logging
import socket
from collections.abc import Iterable
from typing import Any

from kerolox.runtime.event_loop import add_reader, read_budget, remove_reader

log = logging.getLogger(__name__)

# More pieces than this are joined: sendmsg accepts about a thousand (IOV_MAX).
_PIECES_MAX = 256


class SocketTransport(asyncio.Transport):
    """Like the transport of asyncio, without an asyncio handle for every read.

    Reads are dispatched by our selector (`runtime/event_loop.py`). While output is buffered because the peer reads
    slowly, the socket is watched by asyncio for both directions, until the buffer is empty.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, protocol: "Watched") -> None:
        super().__init__({"socket": connected, "peername": _peer(connected)})
        self._loop = loop
        self._socket = connected
        self._descriptor = connected.fileno()
        self._protocol = protocol
        self._budget = read_budget(loop)
        self._buffer = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_paused = False
        self._is_reading = False
        self._is_closing = False
        self._is_lost = False
        protocol.connection_made(self)
        self.resume_reading()

    # Reading

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._unwatch()

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._watch()

    def _watch(self) -> None:
        if self._buffer:
            self._loop.add_reader(self._descriptor, self._read)
        else:
            add_reader(self._loop, self._descriptor, self._read)

    def _unwatch(self) -> None:
        if self._buffer:
            self._loop.remove_reader(self._descriptor)
        else:
            remove_reader(self._loop, self._descriptor)

    def _read(self) -> None:
        protocol, budget = self._protocol, self._budget
        try:
            size = self._socket.recv_into(protocol.get_buffer(budget.size))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        budget.note(size)
        try:
            if size:
                protocol.buffer_updated(size)
            else:
                self.close()
        except Exception as error:
            log.exception("closed the connection to %s", self.get_extra_info("peername"))
            self._lose(error)

    # Writing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def write(self, data: Any) -> None:
        size = 0
        if not self._buffer and not self._is_lost:
            try:
                size = self._socket.send(data)
            except OSError as error:
                self._fail(error)
        if size < len(data):
            self._keep(data, size)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Write pieces of memory without joining them, if the socket accepts all at once."""
        pieces = list(list_of_data)
        if len(pieces) > _PIECES_MAX:
            self.write(b"".join(pieces))
        else:
            size = 0
            if not self._buffer and not self._is_lost:
                try:
                    size = self._socket.sendmsg(pieces)
                except OSError as error:
                    self._fail(error)
            if size < sum(map(len, pieces)):
                for piece in pieces:
                    if size < len(piece):
                        self._keep(piece, size)
                    size = max(size - len(piece), 0)

    def _fail(self, error: OSError) -> None:
        if not isinstance(error, BlockingIOError | InterruptedError):
            self._lose(error)

    def _keep(self, data: Any, size: int) -> None:
        """Buffer the data after the first `size` bytes until the socket is writable."""
        if self._is_lost:
            return
        if not self._buffer:
            if self._is_reading:
                remove_reader(self._loop, self._descriptor)
                self._loop.add_reader(self._descriptor, self._read)
            self._loop.add_writer(self._descriptor, self._write)
        self._buffer += memoryview(data)[size:]
        if len(self._buffer) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def _write(self) -> None:
        try:
            size = self._socket.send(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        self._protocol.is_active = True
        del self._buffer[:size]
        if not self._buffer:
            self._loop.remove_writer(self._descriptor)
            if self._is_reading:
                self._loop.remove_reader(self._descriptor)
                add_reader(self._loop, self._descriptor, self._read)
            if self._is_closing:
                self._lose(None)
                return
        if self._is_paused and len(self._buffer) <= self._low:
            self._is_paused = False
            self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return False

    # Closing

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close when the buffer is written."""
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _lose(self, error: OSError | Exception | None) -> None:
        if self._is_lost:
            return
        self.pause_reading()
        self._is_closing = self._is_lost = True
        if self._buffer:
            self._loop.remove_writer(self._descriptor)
            self._buffer.clear()
        # Later, so that the connection is not torn down under code that is using it.
        self._loop.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()


class Watched(asyncio.BufferedProtocol):
    """A protocol with an idle check: `is_active` is set when buffered bytes were written."""

    is_active = True


def _peer(connected: socket.socket) -> object:
    try:
        return connected.getpeername()
    except OSError:
        # The peer has already disconnected.
        return None
