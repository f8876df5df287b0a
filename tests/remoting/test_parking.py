"""Requests that only wait: where they count, and when they end."""

import asyncio

from kerolox.remoting.parking import Parked
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.runtime.lanes import Lane
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetKVListByNamespace
from kerolox.wire.reply import Reply
from tests.remoting.support import Peer, ask_slow, serving, until


class Waiting:
    """Parks what it is asked until the test opens the gate; "late" only once its connection is lost."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.gate = asyncio.Event()
        self.cancelled: list[str] = []

    @handles(GetKVListByNamespace, lane="pull")
    async def wait(self, request: Incoming[GetKVListByNamespace]) -> Reply[Empty]:
        if request.header.namespace == "late":
            await request.connection.closed
        try:
            with Parked(self.lane, request.connection):
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.header.namespace)
            raise
        return Reply(body=request.header.namespace.encode())


async def test_those_who_wait_take_no_place_from_others() -> None:
    lane = Lane("pull", 1)
    waiting = Waiting(lane)
    async with serving(routes=Routes(waiting, lanes={"pull": lane})) as server, await Peer.to(server.address) as peer:
        for number in range(3):
            await peer.send(ask_slow(f"{number}", opaque=number))
            await until(lambda: lane.parked > number)  # noqa: B023

        waiting.gate.set()

        assert {answer.body for answer in await peer.answers(3)} == {b"0", b"1", b"2"}
        assert (lane.under_way, lane.parked) == (0, 0)


async def test_whoever_waits_ends_with_its_connection() -> None:
    lane = Lane("pull", 10)
    waiting = Waiting(lane)
    async with serving(routes=Routes(waiting, lanes={"pull": lane})) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(ask_slow("parked") + ask_slow("late"))
            await until(lambda: lane.parked == 1 and lane.under_way == 1)

        await until(lambda: lane.parked == lane.under_way == 0)

        assert sorted(waiting.cancelled) == ["late", "parked"]
        assert [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)] == []


class Large:
    """Answers with more than a peer that does not read can have taken."""

    SIZE = 4 * 1024 * 1024

    def __init__(self) -> None:
        self.made = 0

    @handles(GetKVListByNamespace)
    async def make(self, request: Incoming[GetKVListByNamespace]) -> Reply[Empty]:
        self.made += 1
        return Reply(body=bytes(self.SIZE))


async def test_no_answer_is_begun_while_the_last_was_not_read() -> None:
    large = Large()
    lane = Lane("default", 100)
    async with (
        serving(routes=Routes(large, lanes={"default": lane})) as server,
        await Peer.to(server.address, receive_buffer=4096) as greedy,
        await Peer.to(server.address) as other,
    ):
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(20)))
        await until(lambda: large.made + lane.parked == 20 and lane.under_way == 0)

        # What the system has taken is not here, and one was begun when nothing was.
        assert sum(connection.unsent_size for connection in server._connections) < 2 * large.SIZE
        assert large.made < 10

        await other.send(ask_slow("n"))
        assert len((await other.answer()).body) == large.SIZE
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert sorted(answer.opaque for answer in await greedy.answers(20)) == list(range(20))
        assert (lane.under_way, lane.parked) == (0, 0)


async def test_small_answers_together_are_much() -> None:
    """They are made in one turn of the loop, before any of them has left."""
    large = Large()
    large.SIZE = 100 * 1024
    lane = Lane("default", 1000)
    async with (
        serving(routes=Routes(large, lanes={"default": lane})) as server,
        await Peer.to(server.address, receive_buffer=4096) as greedy,
    ):
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(100)))
        await until(lambda: large.made + lane.parked == 100 and lane.under_way == 0)

        assert sum(connection.unsent_size for connection in server._connections) < 1024 * 1024

        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await greedy.answers(100)) == 100


async def test_whoever_waits_for_a_peer_to_read_goes_on_when_it_leaves() -> None:
    large = Large()
    lane = Lane("default", 100)
    async with serving(routes=Routes(large, lanes={"default": lane})) as server:
        async with await Peer.to(server.address, receive_buffer=4096) as greedy:
            greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(20)))
            await until(lambda: large.made and large.made + lane.parked == 20 and lane.under_way == 0)
            assert lane.parked
            greedy.writer.transport.abort()

        await until(lambda: large.made == 20)

        await until(lambda: (lane.under_way, lane.parked) == (0, 0))
