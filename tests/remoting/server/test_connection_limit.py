"""Limits on connections, incomplete frames and log lines: hostile peers do not stop a server, idle ones cost little."""

import asyncio
import gc
import logging
import resource
import socket
import time
import tracemalloc

import pytest

from kerolox.remoting.address import parse_address
from kerolox.remoting.client import Client
from kerolox.remoting.server.connection_limit import ConnectionLimit, Holder, LogLimit, PartialFrames
from kerolox.remoting.server.server import Server, raise_file_limit
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import ONEWAY_BIT
from tests.remoting.support import Echo, Peer, ask, ask_slow, ask_unknown, complaints, get, serving, until

HOSTILE = {
    "garbage": b"\xfe\xed" * 100,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a length beyond the data": b"\x00\xff\xff\xff\x00\x00\x00\x20" + bytes(1000),
    "a length out of bounds": b"\x01\xff\xff\xff",
    "a header length beyond the frame": b"\x00\x00\x00\x10\x00\xff\xff\xff",
    "half a frame": ask(body=bytes(10_000))[:5_000],
    "a flood of unknown codes": ask_unknown() * 150,
    "a flood of oneway requests": ask_unknown(flag=ONEWAY_BIT) * 150,
    "a flood of requests never answered": ask_slow("never") * 20,
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00",
}
HOSTILE_CONNECTIONS = 2000
GOOD_CALL_SECONDS = 5.0

HALF_A_FRAME = ask(body=bytes(100_000))[:60_000]


async def test_hostile_connections_do_not_starve_a_good_client(
    echo: Echo, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with serving(echo) as server:
        attackers = asyncio.create_task(open_hostile_connections(server))
        slowest = 0.0
        while not attackers.done():
            start = time.monotonic()
            await client.call(server.address, get("good"), timeout_seconds=GOOD_CALL_SECONDS)
            slowest = max(slowest, time.monotonic() - start)
        for hostile in await attackers:
            hostile.close()
        await until(lambda: server.connections == 1)
        assert (await client.call(server.address, get("after"))).fields.value == "after"

    assert slowest < GOOD_CALL_SECONDS
    # Log lines about refused connections are rate limited.
    assert 0 < len(complaints(caplog)) <= 10


async def open_hostile_connections(server: Server) -> list[socket.socket]:
    """Open hostile connections, a hundred at a time; each sends its data in two pieces."""
    raise_file_limit()
    attackers: list[socket.socket] = []
    attacks = list(HOSTILE.values())
    for start in range(0, HOSTILE_CONNECTIONS, 100):
        attackers += await asyncio.gather(
            *(attack(server, attacks[n % len(attacks)]) for n in range(start, start + 100))
        )
    return attackers


async def attack(server: Server, data: bytes) -> socket.socket:
    loop = asyncio.get_running_loop()
    hostile = socket.socket()
    hostile.setblocking(False)
    await loop.sock_connect(hostile, parse_address(server.address))
    try:
        await loop.sock_sendall(hostile, data[:3])
        await loop.sock_sendall(hostile, data[3:])
    except OSError:
        pass  # refused before everything was sent
    return hostile


async def test_an_idle_connection_costs_less_than_eight_kilobytes(echo: Echo) -> None:
    count = 500
    async with serving(echo) as server:
        address = parse_address(server.address)
        first = socket.create_connection(address)
        await until(lambda: server.connections == 1)
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()

        idle = [socket.create_connection(address) for _ in range(count)]
        await until(lambda: server.connections == count + 1)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert (after - before) / count < 8 * 1024
        for connection in (first, *idle):
            connection.close()
        await until(lambda: server.connections == 0)


async def test_a_connection_over_the_limit_is_closed_at_once(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    connection_limit = ConnectionLimit(clock, connections_max=2)
    async with (
        serving(echo, clock=clock, connection_limit=connection_limit) as first,
        serving(echo, clock=clock, connection_limit=connection_limit) as second,
        await Peer.to(first.address) as one,
    ):
        async with await Peer.to(second.address) as two:
            for peer in (one, two):
                await peer.send(ask("k"))
                await peer.answer()
            for server in (first, second, first):
                async with await Peer.to(server.address) as surplus:
                    assert await surplus.rest() == b""
            assert (first.connections, second.connections) == (1, 1)
            assert len(complaints(caplog)) == 1
            assert "2 connections are open, at most 2 allowed (serverConnectionsMax); 1 refused" in caplog.text
        await until(lambda: not second.connections)
        async with await Peer.to(first.address) as again:
            await again.send(ask("k"))
            await again.answer()
            await clock.advance(60)
            async with await Peer.to(first.address) as surplus:
                assert await surplus.rest() == b""
    assert len(complaints(caplog)) == 2
    assert "3 refused since the last such line" in complaints(caplog)[1]


@pytest.mark.parametrize(
    ("limit", "files_max", "expected"),
    [(20_000, 3900, 15_900), (20_000, 0, 19_800), (1024, 3900, 512), (resource.RLIM_INFINITY, 3900, 1_000_000)],
)
def test_connections_leave_descriptors_to_the_store(
    monkeypatch: pytest.MonkeyPatch, limit: int, files_max: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    found, given = (
        ConnectionLimit(ManualClock(), files_max=files_max),
        ConnectionLimit(ManualClock(), connections_max=7),
    )

    found.open()
    given.open()

    assert (found.connections_max, given.connections_max) == (expected, 7)


class Holding:
    """A connection that holds as many bytes as the test sets, and none after close."""

    def __init__(self, frames: PartialFrames, remote: str) -> None:
        self._frames = frames
        self.remote = remote
        self.is_closed = False

    def hold(self, size: int) -> None:
        self._frames.update(self, size)

    def abort(self) -> None:
        self.is_closed = True
        self._frames.update(self, 0)


async def test_the_limit_holds_before_the_next_read_and_without_a_tick_of_the_clock(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    connection_limit = ConnectionLimit(ManualClock(), partial_bytes_max=130_000)
    async with (
        serving(echo, connection_limit=connection_limit) as first,
        serving(echo, connection_limit=connection_limit) as second,
    ):
        peers = [await Peer.to(server.address) for server in (first, second, first, second)]
        for peer in peers:
            await peer.send(HALF_A_FRAME)

        await until(
            lambda: first.connections + second.connections == 2 and connection_limit.partial_frames.size == 120_000
        )
        assert len(complaints(caplog)) == 2
        assert all("at most 130000 allowed (partialFrameBytesMax)" in message for message in complaints(caplog))
        for peer in peers:
            await peer.close()
        await until(lambda: not first.connections and not second.connections)
        assert connection_limit.partial_frames.size == 0


async def test_a_frame_that_is_completed_is_no_longer_counted(echo: Echo) -> None:
    connection_limit = ConnectionLimit(ManualClock())
    frame = ask(body=bytes(200_000))
    async with serving(echo, connection_limit=connection_limit) as server, await Peer.to(server.address) as peer:
        await peer.send(frame[:150_000])
        await until(lambda: connection_limit.partial_frames.size == 150_000)

        await peer.send(frame[150_000:] + frame[:10])

        assert len((await peer.answer()).body) == 200_000
        await until(lambda: connection_limit.partial_frames.size == 10)


def test_the_largest_partial_frames_are_closed_first() -> None:
    closed: list[tuple[str, int]] = []

    def note(holder: Holder, size: int) -> None:
        closed.append((holder.remote, size))

    frames = PartialFrames(1600, note)
    holding = [Holding(frames, f"peer {size}") for size in (100, 400, 300, 200, 600)]
    for holder, size in zip(holding, (100, 400, 300, 200, 600), strict=True):
        holder.hold(size)
    assert (frames.size, closed) == (1600, [])

    holding[0].hold(850)

    assert closed == [("peer 100", 2350)]
    assert frames.size == 1500
    holding[1].hold(900)
    assert closed[1:] == [("peer 400", 2000)]
    assert [holder.is_closed for holder in holding] == [True, True, False, False, False]


def test_closing_frees_more_than_needed_so_that_few_reads_scan_all_connections() -> None:
    looks: list[int] = []
    frames = PartialFrames(160_000, lambda _, size: looks.append(size))
    holding = [Holding(frames, str(number)) for number in range(400)]
    for holder in holding:
        holder.hold(1000)

    # 240 exceed the limit. Ten are closed at a time, so about every tenth update reaches the limit.
    assert len([size for size in looks if size > 160_000]) <= 25
    assert 150_000 <= frames.size <= 160_000


async def test_log_lines_about_partial_frames_are_rate_limited(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    async with serving(echo, clock=clock, connection_limit=ConnectionLimit(clock, partial_bytes_max=0)) as server:
        for _ in range(15):
            async with await Peer.to(server.address) as peer:
                await peer.send(HALF_A_FRAME)
                assert await peer.rest() == b""

        assert len(complaints(caplog)) == 10
        await clock.advance(61)

    assert complaints(caplog)[10:] == ["5 more lines about closed connections in the last 60 s"]


async def test_lines_beyond_the_limit_are_demoted_to_debug_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=2, seconds=60)

    levels = [limit.level() for _ in range(5)]
    await clock.advance(59)
    limit.report()
    assert levels == [logging.WARNING] * 2 + [logging.DEBUG] * 3
    assert caplog.messages == []

    await clock.advance(1)
    limit.report()
    limit.report()
    assert caplog.messages == ["3 more lines about bad frames in the last 60 s"]


async def test_the_first_line_of_the_next_interval_reports_the_suppressed_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=1, seconds=60)
    limit.level()
    limit.level()
    await clock.advance(100)

    assert limit.level() == logging.WARNING
    assert caplog.messages == ["1 more lines about bad frames in the last 60 s"]
    await clock.advance(59)
    assert limit.level() == logging.DEBUG


async def test_no_report_is_logged_if_no_line_was_suppressed(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=2, seconds=60)
    limit.level()
    limit.level()
    await clock.advance(120)

    limit.report()

    assert caplog.messages == []
