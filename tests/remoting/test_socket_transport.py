import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kerolox.remoting.server.listener import Listener
from kerolox.remoting.socket_transport import SocketTransport, Watched


class Peer(Watched):
    """A protocol that records its callbacks."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.buffer = bytearray(1024)
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.transport: SocketTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, size: int) -> None:
        if self.buffer[:size] == b"fail":
            raise ValueError("as it was told to")
        self.received += self.buffer[:size]

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


class Pair:
    """A transport and the plain socket of its peer."""

    def __init__(self) -> None:
        ours, self.far = socket.socketpair()
        for end in (ours, self.far):
            end.setblocking(False)
        self.peer = Peer()
        self.transport = SocketTransport(asyncio.get_running_loop(), ours, self.peer)

    async def until_read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.far, 1 << 20), 30)
        return data


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    yield made
    made.transport.abort()
    await made.peer.lost
    made.far.close()


async def until(holds: Any) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)


async def test_unread_data_is_buffered_and_written_when_the_peer_reads(pair: Pair) -> None:
    data = bytes(range(256)) * 40_000
    pair.transport.set_write_buffer_limits(100_000, 1000)

    pair.transport.write(data)
    pair.transport.write(b"the end")
    held = pair.transport.get_write_buffer_size()
    await asyncio.get_running_loop().sock_sendall(pair.far, b"hello")
    await until(lambda: pair.peer.received == b"hello")

    assert held > 100_000
    assert pair.peer.events == ["pause"]
    assert await pair.until_read(len(data) + 7) == data + b"the end"
    await until(lambda: pair.transport.get_write_buffer_size() == 0)
    assert pair.peer.events == ["pause", "resume"]
    await asyncio.get_running_loop().sock_sendall(pair.far, b" again")
    await until(lambda: pair.peer.received == b"hello again")


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("count", [2, 200, 1000])
async def test_writes_arrive_in_order_from_the_buffer_or_the_socket(pair: Pair, size: int, count: int) -> None:
    pieces = [memoryview(bytes([number % 256]) * (size // count + 1)) for number in range(count)]
    whole = b"".join(pieces)

    pair.transport.write(b"first")
    pair.transport.writelines(pieces)
    pair.transport.writelines(pieces)
    pair.transport.write(b"last")

    assert await pair.until_read(2 * len(whole) + 9) == b"first" + whole + whole + b"last"


async def test_close_flushes_buffered_writes(pair: Pair) -> None:
    data = bytes(5_000_000)
    pair.transport.write(data)

    pair.transport.close()

    assert pair.transport.is_closing()
    assert not pair.peer.lost.done()
    assert await pair.until_read(len(data)) == data
    assert await asyncio.wait_for(pair.peer.lost, 30) is None


async def test_nothing_is_read_while_reading_is_paused(pair: Pair) -> None:
    pair.transport.pause_reading()
    await asyncio.get_running_loop().sock_sendall(pair.far, b"hello")
    for _ in range(5):
        await asyncio.sleep(0)
    before = bytes(pair.peer.received)

    pair.transport.resume_reading()

    assert before == b""
    await until(lambda: pair.peer.received == b"hello")


async def test_eof_from_the_peer_ends_the_connection(pair: Pair) -> None:
    pair.far.close()

    assert await asyncio.wait_for(pair.peer.lost, 30) is None
    pair.transport.write(b"into the void")
    assert pair.transport.get_write_buffer_size() == 0


async def test_a_reset_discards_the_buffered_writes(pair: Pair) -> None:
    pair.transport.write(bytes(5_000_000))
    pair.far.close()

    assert isinstance(await asyncio.wait_for(pair.peer.lost, 30), OSError)
    assert pair.transport.get_write_buffer_size() == 0


async def test_a_failing_protocol_loses_only_its_own_connection(pair: Pair) -> None:
    await asyncio.get_running_loop().sock_sendall(pair.far, b"fail")

    assert isinstance(await asyncio.wait_for(pair.peer.lost, 30), ValueError)


async def test_accepting_pauses_without_descriptors_and_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kerolox.remoting.server.listener._PAUSE_SECONDS", 0.01)
    peers: list[Peer] = []

    def made() -> Peer:
        peers.append(Peer())
        return peers[-1]

    listener = Listener(made)
    await listener.open("127.0.0.1", 0, backlog=8)
    listener._loop.remove_reader(listener.sockets[0])
    exhausted = Exhausted(listener.sockets[0])
    listener.sockets = [exhausted]
    listener._watch(exhausted)

    with socket.create_connection(exhausted.getsockname()):
        await until(lambda: peers)

        assert exhausted.refused == 1
        listener.close()
    assert peers[0].transport is not None
    await asyncio.wait_for(peers[0].lost, 30)


class Exhausted(socket.socket):
    """A listening socket whose first accept fails with EMFILE."""

    def __init__(self, real: socket.socket) -> None:
        super().__init__(fileno=real.detach())
        self.refused = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.refused:
            self.refused += 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()
