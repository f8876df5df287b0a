"""A blocking connection, for a task that only waits for the records it reads.

With an event loop, each response would be copied three times and passed between threads.
"""

import socket
import ssl
import struct
from typing import Any, NamedTuple

from kerolox.auth.signing import signed
from kerolox.client.session.requests import LANGUAGE
from kerolox.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import next_opaque
from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.wire.command import ANSWER_BIT, JSON, Command, decode, encode
from kerolox.wire.frames import FRAME_SIZE_MAX, PREFIX
from kerolox.wire.header import Request


class ResponseHeader(NamedTuple):
    """A response without its body, which must be read before the next response."""

    command: Command
    body_size: int


class BlockingConnection:
    """Sends requests at once; responses are read on demand, in the order of arrival.

    Any method may raise ConnectFailed, ConnectionLost or CallTimeout; then the connection is closed.
    """

    def __init__(self, address: str, connection: ConnectionOptions, timeout_seconds: float) -> None:
        self.address = address
        self._credentials = connection.credentials
        self._socket = _connect(address, connection)
        self._is_tls = isinstance(self._socket, ssl.SSLSocket)
        if self._is_tls:
            self._socket.settimeout(timeout_seconds)
        else:
            # With a kernel timeout the socket stays blocking, so MSG_WAITALL returns a whole body with one call.
            self._socket.settimeout(None)
            timeout = struct.pack("ll", int(timeout_seconds), int(timeout_seconds % 1 * 1_000_000))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, timeout)

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Request[Any]) -> int:
        """Send a request; return its opaque."""
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

    def read_header(self) -> ResponseHeader:
        """Return the next response up to its body."""
        while True:
            length, type_and_size = PREFIX.unpack(self._read(PREFIX.size))
            header_size = type_and_size & 0xFFFFFF
            if length + 4 > FRAME_SIZE_MAX or header_size > length - 4:
                self.close()
                raise ProtocolError(f"frame of {length + 4} bytes with a header of {header_size} from {self.address}")
            command = decode((type_and_size >> 24, self._read(header_size), b""))
            body_size = length - 4 - header_size
            if command.flag & ANSWER_BIT:
                return ResponseHeader(command, body_size)
            # A request from the broker, such as a changed consumer list; tasks ignore them.
            self._read(body_size)

    def read_body(self, size: int) -> bytes:
        return self._read(size)

    def _read(self, size: int) -> bytes:
        if not size:
            return b""
        try:
            data = self._socket.recv(size, 0 if self._is_tls else socket.MSG_WAITALL)
            if len(data) == size:
                return data
            return self._read_rest(data, size)
        except OSError as error:
            raise self._failed(error) from error

    def _read_rest(self, data: bytes, size: int) -> bytes:
        parts, received = [data], len(data)
        while received < size:
            if not parts[-1]:
                self.close()
                raise ConnectionLost(f"{self.address} closed the connection")
            parts.append(self._socket.recv(size - received))
            received += len(parts[-1])
        return b"".join(parts)

    def _failed(self, error: OSError) -> CallTimeout | ConnectionLost:
        self.close()
        if isinstance(error, TimeoutError | BlockingIOError):
            return CallTimeout(f"{self.address} did not respond in time")
        return ConnectionLost(f"connection to {self.address} was lost: {error}")


def _connect(address: str, connection: ConnectionOptions) -> socket.socket:
    host, port = parse_address(address)
    seconds = connection.connect_millis / 1000
    try:
        plain = socket.create_connection((host, port), seconds)
    except OSError as error:
        raise ConnectFailed(f"cannot connect to {address}: {error}") from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = connection.tls_context()
        return plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise ConnectFailed(f"cannot connect to {address}: {error}") from error
    except BaseException:
        plain.close()
        raise
