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
