"""A connection that blocks: for a task that has nothing else to do than to wait for what it reads.

An event loop would copy megabytes three times on their way here, and hand them from thread to thread.
"""

import socket
import ssl
import struct
from typing import Any, NamedTuple

from kerolox.auth.signing import signed
from kerolox.client.calls import LANGUAGE
from kerolox.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import next_opaque
from kerolox.spark.connecting import Connect
from kerolox.wire.command import ANSWER_BIT, JSON, Command, decode, encode
from kerolox.wire.frames import FRAME_SIZE_MAX, PREFIX
from kerolox.wire.header import Request


class Head(NamedTuple):
    """An answer whose body has not been read yet; it must be, before anything else is."""

    command: Command
    body_size: int


class Channel:
    """Requests go out as they are made, and answers are read when they are needed, in the order in which they come.

    ConnectFailed, ConnectionLost or CallTimeout from any method: then it is closed, and of no more use.
    """

    def __init__(self, address: str, connect: Connect, timeout_seconds: float) -> None:
        self.address = address
        self._credentials = connect.credentials
        self._socket = _connected(address, connect)
        self._is_tls = isinstance(self._socket, ssl.SSLSocket)
        if self._is_tls:
            self._socket.settimeout(timeout_seconds)
        else:
            # With a bound that the kernel keeps, one call returns all of an answer.
            self._socket.settimeout(None)
            bound = struct.pack("ll", int(timeout_seconds), int(timeout_seconds % 1 * 1_000_000))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, bound)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Request[Any]) -> int:
        """Sends a request; returns the number its answer will have."""
        opaque = next_opaque()
        ext = request.ext()
        if self._credentials is not None:
            ext = signed(self._credentials, ext, b"")
        frame = encode(JSON, code=request.code, opaque=opaque, language=LANGUAGE, ext=ext)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._failed(error) from error
        return opaque

    def head(self) -> Head:
        """Returns the next answer up to its body."""
        while True:
            length, mark = PREFIX.unpack(self._read(PREFIX.size))
            header_size = mark & 0xFFFFFF
            if length + 4 > FRAME_SIZE_MAX or header_size > length - 4:
                self.close()
                raise ProtocolError(f"frame of {length + 4} bytes with a header of {header_size} from {self.address}")
            command = decode((mark >> 24, self._read(header_size), b""))
            body_size = length - 4 - header_size
            if command.flag & ANSWER_BIT:
                return Head(command, body_size)
            # The broker asks or tells something, which is for clients that stay.
            self._read(body_size)

    def body(self, size: int) -> bytes:
        return self._read(size)

    def _read(self, size: int) -> bytes:
        if not size:
            return b""
        try:
            data = self._socket.recv(size, 0 if self._is_tls else socket.MSG_WAITALL)
            if len(data) == size:
                return data
            return self._read_on(data, size)
        except OSError as error:
            raise self._failed(error) from error

    def _read_on(self, data: bytes, size: int) -> bytes:
        parts, got = [data], len(data)
        while got < size:
            if not parts[-1]:
                self.close()
                raise ConnectionLost(f"{self.address} has closed the connection")
            parts.append(self._socket.recv(size - got))
            got += len(parts[-1])
        return b"".join(parts)

    def _failed(self, error: OSError) -> CallTimeout | ConnectionLost:
        self.close()
        if isinstance(error, TimeoutError | BlockingIOError):
            return CallTimeout(f"{self.address} did not answer in time")
        return ConnectionLost(f"connection to {self.address} was lost: {error}")


def _connected(address: str, connect: Connect) -> socket.socket:
    host, port = parse_address(address)
    seconds = connect.connect_millis / 1000
    try:
        plain = socket.create_connection((host, port), seconds)
    except OSError as error:
        raise ConnectFailed(f"cannot connect to {address}: {error}") from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = connect.tls_context()
        return plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise ConnectFailed(f"cannot connect to {address}: {error}") from error
    except BaseException:
        plain.close()
        raise
