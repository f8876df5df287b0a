"""Blocking connections to a server on loopback: one request, one response."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from bench.frames import Ring, ring_of

RECEIVE_SIZE = 64 * 1024
SILENCE_SECONDS_MAX = 30.0


def connect(port: int, source: str | None = None) -> socket.socket:
    """Return a blocking connection with TCP_NODELAY."""
    connection = socket.create_connection(
        ("127.0.0.1", port), timeout=SILENCE_SECONDS_MAX, source_address=(source, 0) if source else None
    )
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def connect_for_load(port: int) -> socket.socket:
    """Return a connection with a kernel timeout; Python's own timeouts would add a `poll` to each call."""
    connection = connect(port)
    connection.settimeout(None)
    bound = struct.pack("ll", int(SILENCE_SECONDS_MAX), 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
    return connection


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """Send a request frame and return the response frame."""
    connection.sendall(frame)
    answer = next(_answers(connection), None)
    if answer is None:
        raise ConnectionError("the server closed the connection instead of answering")
    return answer


def record(port: int, requests: Ring) -> Ring:
    """Send each request of the ring once and return the responses as a ring for a canned server."""
    with connect(port) as connection:
        return ring_of([ask(connection, requests.slice(index, 1)) for index in range(len(requests))])


def _answers(connection: socket.socket) -> Iterator[bytes]:
    data = b""
    while received := connection.recv(RECEIVE_SIZE):
        data += received
        while len(data) >= 4 and len(data) >= (size := 4 + int.from_bytes(data[:4])):
            yield data[:size]
            data = data[size:]
