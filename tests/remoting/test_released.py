"""A closed connection is freed at once, by its last reference: servers run the garbage collector rarely."""

import gc
import ssl
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kerolox.errors import ConnectFailed, ConnectionLost
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.server.server import Server
from kerolox.remoting.tls import ServerTls, TlsMode, client_context
from kerolox.runtime.clock import ManualClock
from tests.remoting.support import Echo, Peer, ask, ask_slow, get_slow, serving, until

HALF_A_FRAME = ask(body=bytes(500_000))[:300_000]
SENT = {
    "nothing": b"",
    "a request": ask(),
    "a request, and half a frame": ask() + HALF_A_FRAME,
    "half a frame": HALF_A_FRAME,
    "half a PROXY header": b"PROXY TCP4 203.0.113.9 ",
    "a PROXY header": b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n" + ask(),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a frame that is too long": b"\x01\x00\x00\x01" + bytes(20),
    "a header that is no JSON": b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
    "a binary header that is cut off": b"\x00\x00\x00\x08\x01\x00\x00\x04nope",
    "half a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00",
    "a TLS greeting that is none": b"\x16\x03\x01\x00\x04nope",
}


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Closed:
    """Weak references to the connections that a server has lost."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Connection]] = []

    def add(self, connection: Connection) -> None:
        self._references.append(weakref.ref(connection))

    async def until_freed(self, count: int = 1) -> None:
        await until(lambda: len(self._references) == count)
        await until(lambda: not any(reference() for reference in self._references))


@pytest.mark.parametrize("data", SENT.values(), ids=SENT)
async def test_a_connection_is_freed_whatever_it_has_sent(echo: Echo, server_tls: ServerTls, data: bytes) -> None:
    closed = Closed()
    async with serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls, on_closed=closed.add) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(data)
        await closed.until_freed()


@pytest.mark.parametrize("data", [b"", ask(), HALF_A_FRAME, SENT["HTTP"]], ids=["nothing", "ask", "half", "HTTP"])
async def test_a_tls_connection_is_freed_whatever_it_has_sent(echo: Echo, server_tls: ServerTls, data: bytes) -> None:
    closed = Closed()
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls, on_closed=closed.add) as server:
        async with await Peer.to(server.address, tls=client_context()) as peer:
            await peer.send(data)
        await closed.until_freed()


async def test_a_connection_with_a_request_under_way_is_freed_when_that_ends(echo: Echo) -> None:
    closed, clock = Closed(), ManualClock()
    async with serving(echo, clock=clock, on_closed=closed.add) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(ask_slow("gate") + HALF_A_FRAME)
            await until(lambda: echo.asked)
        await until(lambda: not server.connections)
        echo.gate("gate").set()
        await clock.advance(2)
        await closed.until_freed()


async def test_a_peer_that_does_not_read_is_freed_with_the_requests_that_waited_for_it(echo: Echo) -> None:
    echo.answer_size = 1024 * 1024
    closed = Closed()
    async with serving(echo, on_closed=closed.add) as server:
        async with await Peer.to(server.address, receive_buffer=4096) as peer:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.send(b"".join(ask(opaque=number) for number in range(10)) + HALF_A_FRAME)
            await until(lambda: any(connection._held for connection in server._connections))  # type: ignore[attr-defined]
            peer.writer.transport.abort()
        # Reading is paused, so only a write notices that the peer has left.
        for connection in server._connections:
            connection.abort()
        del connection
        await closed.until_freed()


async def test_a_referenced_closed_connection_holds_no_received_bytes(echo: Echo) -> None:
    kept: list[Any] = []
    connection_limit = ConnectionLimit(ManualClock())
    async with serving(echo, connection_limit=connection_limit, on_closed=kept.append) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(HALF_A_FRAME)
            await until(lambda: connection_limit.partial_frames.size == len(HALF_A_FRAME))
        await until(lambda: kept)

        assert connection_limit.partial_frames.size == 0
        assert (kept[0]._reader.partial_size, len(kept[0]._reader._partial)) == (0, 0)
        assert kept[0].is_closed


async def test_a_client_connection_is_freed_after_a_call_that_failed_with_it(echo: Echo) -> None:
    async with serving(echo) as server, Client() as client:
        connection = weakref.ref(await client.connection(server.address))
        await until(lambda: server.connections)
        for accepted in server._connections:
            accepted.abort()
        with pytest.raises(ConnectionLost):
            await client.call(server.address, get_slow("never"))

        await until(lambda: connection() is None)


async def test_a_client_connection_is_freed_after_a_tls_handshake_that_failed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Connection]] = []
    begin = Connection.begin_tls

    async def noted(connection: Connection, context: ssl.SSLContext, *, server_hostname: str) -> None:
        made.append(weakref.ref(connection))
        await begin(connection, context, server_hostname=server_hostname)

    monkeypatch.setattr(Connection, "begin_tls", noted)
    async with Client(tls=client_context()) as client:
        with pytest.raises(ConnectFailed):
            await client.connection(server.address)

        await until(lambda: made and made[0]() is None)
