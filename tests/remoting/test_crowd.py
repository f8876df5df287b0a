"""A server among many: hostile ones do not stop it from serving, idle ones cost little."""

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
from kerolox.remoting.crowd import Crowd
from kerolox.remoting.server import Server, raise_file_limit
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import ONEWAY_BIT
from tests.remoting.support import Echo, Peer, ask, ask_slow, ask_unknown, complaints, get, serving, until

HOSTILE = {
    "garbage": b"\xfe\xed" * 100,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a length that lies": b"\x00\xff\xff\xff\x00\x00\x00\x20" + bytes(1000),
    "a length out of bounds": b"\x01\xff\xff\xff",
    "a header that lies": b"\x00\x00\x00\x10\x00\xff\xff\xff",
    "half a frame": ask(body=bytes(10_000))[:5_000],
    "a flood of unknown codes": ask_unknown() * 150,
    "a flood of oneway requests": ask_unknown(flag=ONEWAY_BIT) * 150,
    "a flood of requests never answered": ask_slow("never") * 20,
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00",
}
CROWD = 2000
GOOD_CALL_SECONDS = 5.0


async def test_a_hostile_crowd_does_not_keep_a_good_client_from_its_answers(
    echo: Echo, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with serving(echo) as server:
        crowd = asyncio.create_task(surround(server))
        slowest = 0.0
        while not crowd.done():
            start = time.monotonic()
            await client.call(server.address, get("good"), timeout_seconds=GOOD_CALL_SECONDS)
            slowest = max(slowest, time.monotonic() - start)
        for hostile in await crowd:
            hostile.close()
        await until(lambda: server.connections == 1)
        assert (await client.call(server.address, get("after"))).fields.value == "after"

    assert slowest < GOOD_CALL_SECONDS
    # At most one line for each.
    assert len(complaints(caplog)) <= CROWD


async def surround(server: Server) -> list[socket.socket]:
    """Brings the crowd in, a hundred at a time, each dripping what it has in two pieces."""
    raise_file_limit()
    crowd: list[socket.socket] = []
    attacks = list(HOSTILE.values())
    for start in range(0, CROWD, 100):
        crowd += await asyncio.gather(*(attack(server, attacks[n % len(attacks)]) for n in range(start, start + 100)))
    return crowd


async def attack(server: Server, data: bytes) -> socket.socket:
    loop = asyncio.get_running_loop()
    hostile = socket.socket()
    hostile.setblocking(False)
    await loop.sock_connect(hostile, parse_address(server.address))
    try:
        await loop.sock_sendall(hostile, data[:3])
        await loop.sock_sendall(hostile, data[3:])
    except OSError:
        pass  # thrown out before it had said everything
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


async def test_so_many_are_admitted_and_the_next_is_closed_at_once(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    crowd = Crowd(clock, connections_max=2)
    async with (
        serving(echo, clock=clock, crowd=crowd) as first,
        serving(echo, clock=clock, crowd=crowd) as second,
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
            assert "2 connections are open, at most 2 allowed (serverConnectionsMax); 1 were" in caplog.text
        await until(lambda: not second.connections)
        async with await Peer.to(first.address) as again:
            await again.send(ask("k"))
            await again.answer()
            await clock.advance(60)
            async with await Peer.to(first.address) as surplus:
                assert await surplus.rest() == b""
    assert len(complaints(caplog)) == 2
    assert "3 were closed so since the last of these lines" in complaints(caplog)[1]


@pytest.mark.parametrize(
    ("limit", "files_max", "expected"),
    [(20_000, 3900, 15_900), (20_000, 0, 19_800), (1024, 3900, 512), (resource.RLIM_INFINITY, 3900, 1_000_000)],
)
def test_connections_leave_descriptors_to_the_store(
    monkeypatch: pytest.MonkeyPatch, limit: int, files_max: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    found, given = Crowd(ManualClock(), files_max=files_max), Crowd(ManualClock(), connections_max=7)

    found.open()
    given.open()

    assert (found.connections_max, given.connections_max) == (expected, 7)
