"""Connection: bytes to frames and responses to bytes, observed at the transport."""

import asyncio
import itertools
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerolox.remoting.connection import Connection, flush_waiting
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Router
from kerolox.remoting.server.connection import ServerConnection
from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.event_loop import READ_SIZE_MAX
from kerolox.wire.command import Command, decode
from kerolox.wire.frames import FrameReader
from tests.remoting.support import Echo, Peer, ask, ask_slow, ask_unknown, complaints, serving, until


class RecordingTransport(asyncio.Transport):
    """A transport that remembers each write; it never fills up."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def answers(self) -> list[Command]:
        return [decode(frame) for frame in FrameReader().feed(b"".join(self.writes))]


def connected(echo: Echo) -> tuple[Connection, RecordingTransport]:
    connection = ServerConnection(Router(echo), Limits(), connection_limit=ConnectionLimit(ManualClock()))
    transport = RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


def receive(connection: Connection, data: bytes) -> None:
    """Pass bytes to the connection as the event loop does."""
    for start in range(0, len(data), READ_SIZE_MAX):
        piece = data[start : start + READ_SIZE_MAX]
        connection.get_buffer(-1)[: len(piece)] = piece
        connection.buffer_updated(len(piece))


async def test_the_frames_of_one_read_are_answered_in_one_write(echo: Echo) -> None:
    connection, transport = connected(echo)

    receive(connection, b"".join(ask(str(number), opaque=number) for number in range(50)))

    assert len(transport.writes) == 1
    assert [answer.opaque for answer in transport.answers()] == list(range(50))


async def test_answers_that_become_ready_in_one_turn_leave_in_one_write(echo: Echo) -> None:
    connection, transport = connected(echo)
    receive(connection, b"".join(ask_slow("gate", opaque=number) for number in range(50)))
    await until(lambda: len(echo.asked) == 50)
    assert transport.writes == []

    echo.gate("gate").set()
    await until(lambda: not connection.is_working)
    await until(lambda: transport.writes)

    assert len(transport.writes) == 1
    assert sorted(answer.opaque for answer in transport.answers()) == list(range(50))


async def test_frames_cut_in_two_at_any_point_are_answered_alike(echo: Echo) -> None:
    stream = ask("a", opaque=1, body=b"body") + ask_unknown(opaque=2) + ask("b", opaque=3)
    for cut in range(len(stream) + 1):
        connection, transport = connected(echo)

        receive(connection, stream[:cut])
        receive(connection, stream[cut:])

        assert [answer.opaque for answer in transport.answers()] == [1, 2, 3], f"cut at {cut}"
        assert not connection.is_partial


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 700), max_size=40))
def test_frames_cut_anywhere_and_often_are_answered_alike(cuts: list[int]) -> None:
    async def check() -> None:
        connection, transport = connected(Echo())
        stream = b"".join(ask(str(number), opaque=number, body=bytes(number)) for number in range(4))
        edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]

        for start, end in itertools.pairwise(edges):
            receive(connection, stream[start:end])

        assert [answer.opaque for answer in transport.answers()] == [0, 1, 2, 3]

    asyncio.run(check())


async def test_good_frames_before_a_bad_one_are_still_answered(echo: Echo) -> None:
    connection, transport = connected(echo)

    receive(connection, ask("good") + b"\xff" * 8)

    assert [answer.opaque for answer in transport.answers()] == [7]
    await asyncio.sleep(0.01)
    assert transport.closed


async def test_a_response_after_the_connection_ended_is_dropped(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = connected(echo)
    receive(connection, ask_slow("gate"))
    await until(lambda: echo.asked)
    connection.close()

    echo.gate("gate").set()
    await until(lambda: not connection.is_working)
    await asyncio.sleep(0)

    assert transport.writes == []
    assert complaints(caplog) == []


async def test_event_loops_in_different_threads_do_not_read_into_the_same_buffer(echo: Echo) -> None:
    """The blocking client runs its own event loop in a thread."""
    buffers: list[memoryview] = []

    async def read() -> None:
        connection, _ = connected(echo)
        buffers.append(connection.get_buffer(-1))

    await read()
    thread = threading.Thread(target=lambda: asyncio.run(read()))
    thread.start()
    thread.join()

    assert len(buffers) == 2
    assert buffers[0].obj is not buffers[1].obj


async def test_a_frame_byte_by_byte_over_a_socket_is_answered(server: Server) -> None:
    async with await Peer.to(server.address) as peer:
        for byte in ask("slow", body=b"x"):
            await peer.send(bytes([byte]))

        assert (await peer.answer()).body == b"x"


async def test_a_peer_that_half_closes_gets_the_responses_that_are_ready(server: Server) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(ask("last"))
        peer.writer.write_eof()

        assert (await peer.answer()).opaque == 7
        assert await peer.rest() == b""


# A peer that does not read


ANSWER_SIZE = 64 * 1024
REQUESTS = 400


async def test_a_peer_that_does_not_read_is_not_read_from_and_is_answered_when_it_does(
    echo: Echo,
) -> None:
    echo.answer_size = ANSWER_SIZE
    limits = Limits()
    async with serving(echo, limits=limits) as server:
        async with (
            await Peer.to(server.address, receive_buffer=4096) as greedy,
            await Peer.to(server.address) as modest,
        ):
            greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            greedy.writer.write(b"".join(ask(f"greedy {n}", opaque=n) for n in range(REQUESTS)))
            connection = await connection_of(server, greedy)
            await until(lambda: connection._held is not None)

            for number in range(20):
                await modest.send(ask("modest", opaque=number))
                assert (await modest.answer()).opaque == number

            held = connection._transport.get_write_buffer_size()
            # The buffer level depends on how much the kernel took before the last responses.
            assert limits.write_buffer_high < held <= 2 * limits.write_buffer_high + ANSWER_SIZE + 200
            # Bytes that are not in this buffer are in the kernel's.
            answered = sum(key.startswith("greedy") for key in echo.asked)
            assert answered < REQUESTS / 2
            assert not connection._transport.is_reading()

            greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
            answers = await greedy.answers(REQUESTS)

        assert [answer.opaque for answer in answers] == list(range(REQUESTS))
        assert {len(answer.body) for answer in answers} == {ANSWER_SIZE}


async def test_deferred_requests_are_dropped_when_the_connection_closes(echo: Echo) -> None:
    echo.answer_size = ANSWER_SIZE
    async with serving(echo) as server, await Peer.to(server.address, receive_buffer=4096) as greedy:
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        greedy.writer.write(b"".join(ask(f"greedy {n}", opaque=n) for n in range(100)) + ask_slow("after"))
        connection = await connection_of(server, greedy)
        await until(lambda: connection._held is not None)
        asked = len(echo.asked)

        connection.close()
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await greedy.rest()
        await until(lambda: server.connections == 0)

        assert len(echo.asked) == asked
        assert not connection.is_working


async def connection_of(server: Server, peer: Peer) -> Any:
    await until(lambda: any(connection.remote == peer.name for connection in server._connections))
    return next(connection for connection in server._connections if connection.remote == peer.name)


async def test_a_failing_write_does_not_withhold_responses_from_other_peers(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    broken, at_fault = connected(echo)
    whole, transport = connected(echo)
    at_fault.write = lambda data: 1 / 0  # type: ignore[method-assign,assignment]
    aborted: list[bool] = []
    at_fault.abort = lambda: aborted.append(True)  # type: ignore[method-assign]

    broken.send(b"lost")
    whole.send(b"answer")
    flush_waiting()

    assert transport.writes == [b"answer"]
    assert aborted == [True]
    assert "writing failed" in caplog.text
    whole.send(b"next")
    await asyncio.sleep(0)
    assert transport.writes == [b"answer", b"next"]
