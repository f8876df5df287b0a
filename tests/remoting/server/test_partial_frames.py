"""The limit on bytes in incomplete frames, counted as they arrive."""

import logging

import pytest

from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.server.partial_frames import Holder, PartialFrames
from kerolox.runtime.clock import ManualClock
from tests.remoting.support import Echo, Peer, ask, complaints, serving, until

HALF_A_FRAME = ask(body=bytes(100_000))[:60_000]


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
