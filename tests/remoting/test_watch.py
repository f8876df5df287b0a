"""Connections are closed when idle, or when a frame or handshake does not complete in time."""

import asyncio
import logging

import pytest

from kerolox.remoting.tls import ServerTls, TlsMode
from kerolox.runtime.clock import ManualClock
from tests.remoting.support import PATIENCE_SECONDS, Echo, Peer, ask, ask_slow, complaints, serving, until

HALF_A_FRAME = ask(body=bytes(100))[:-50]
HALF_BEGINNINGS = {
    "prefix": HALF_A_FRAME[:3],
    "frame": HALF_A_FRAME,
    "PROXY line": b"PROXY TCP4 192.0",
    "PROXY v2": b"\r\n\r\n\x00\r\nQUIT\n\x21",
    "HTTP request": b"GET /index",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_silent_connection_is_closed_after_two_minutes(
    echo: Echo, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kerolox.remoting")
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        await until(lambda: server.connections == 1)
        await clock.advance(119)
        assert server.connections == 1

        await clock.advance(3)

        assert await peer.rest() == b""
        assert f"closed {peer.name}: idle for 120 s" in caplog.messages
        assert server.connections == 0


async def test_a_connection_with_occasional_requests_is_kept(echo: Echo, clock: ManualClock) -> None:
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        for opaque in range(5):
            await clock.advance(100)
            await peer.send(ask(opaque=opaque))
            assert (await peer.answer()).opaque == opaque

        assert server.connections == 1


async def test_an_answer_that_took_long_counts_as_activity(echo: Echo, clock: ManualClock) -> None:
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        await peer.send(ask_slow("long"))
        await until(lambda: echo.asked)
        await clock.advance(100)

        echo.gate("long").set()
        await peer.answer()
        await clock.advance(100)

        assert server.connections == 1


@pytest.mark.parametrize("beginning", HALF_BEGINNINGS.values(), ids=HALF_BEGINNINGS)
async def test_an_incomplete_frame_or_preamble_is_closed_after_half_a_minute(
    echo: Echo, clock: ManualClock, beginning: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        await peer.send(beginning)
        await until(lambda: any(connection.is_partial for connection in server._connections))
        await clock.advance(29)
        assert server.connections == 1

        await clock.advance(3)

        assert await peer.rest() == b""
        assert [message for message in complaints(caplog) if "still incomplete after 30 s" in message] == complaints(
            caplog
        )
        assert len(complaints(caplog)) == 1


async def test_a_tls_handshake_must_be_finished_in_half_a_minute(
    echo: Echo, clock: ManualClock, server_tls: ServerTls
) -> None:
    async with (
        serving(echo, clock=clock, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(b"\x16\x03\x01\x02\x00\x01\x00")
        await until(lambda: any(connection.is_partial for connection in server._connections))

        await clock.advance(32)

        assert await peer.rest() == b""


async def test_bytes_that_trickle_in_do_not_count_as_progress(echo: Echo, clock: ManualClock) -> None:
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        for byte in HALF_A_FRAME[:16]:
            await peer.send(bytes([byte]))
            await clock.advance(2)

        assert await peer.rest() == b""


async def test_a_slow_peer_that_completes_frames_is_kept(echo: Echo, clock: ManualClock) -> None:
    """The peer starts the next frame before each check."""
    async with serving(echo, clock=clock) as server, await Peer.to(server.address) as peer:
        frame = ask()
        await peer.send(frame[:20])
        for _ in range(6):
            await clock.advance(25)
            await peer.send(frame[20:] + frame[:20])
            await peer.answer()

        assert server.connections == 1


async def test_a_half_frame_is_not_held_against_a_peer_we_do_not_read_from(echo: Echo, clock: ManualClock) -> None:
    # More than the socket buffers hold.
    echo.answer_size = 1024 * 1024
    async with serving(echo, clock=clock) as server, await Peer.to(server.address, receive_buffer=4096) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(b"".join(ask(opaque=number) for number in range(10)) + HALF_A_FRAME)
        await until(lambda: any(connection._held for connection in server._connections))  # type: ignore[attr-defined]

        await clock.advance(60)

        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await peer.answers(10)) == 10


async def test_a_peer_that_reads_slowly_is_kept_and_one_that_has_stopped_is_not(echo: Echo, clock: ManualClock) -> None:
    # More than the socket buffers hold, even after the peer has read twice.
    echo.answer_size = 15 * 1024 * 1024
    async with serving(echo, clock=clock) as server, await Peer.to(server.address, receive_buffer=4096) as peer:
        await peer.send(ask())
        await until(lambda: echo.asked)
        (connection,) = server._connections
        for _ in range(2):
            left = connection.unsent_size
            assert left
            await clock.advance(100)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while connection.unsent_size == left:
                    assert await peer.reader.read(64 * 1024)
        await clock.advance(100)

        assert server.connections == 1
        await clock.advance(23)
        await until(lambda: server.connections == 0)
