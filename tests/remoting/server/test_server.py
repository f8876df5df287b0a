"""The server: its address, and how it closes."""

import asyncio
import socket
import time

import pytest

from kerolox.errors import ConfigurationError, ConnectionLost
from kerolox.remoting.client import Client
from kerolox.remoting.router import Router
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import ManualClock
from tests.remoting.support import Echo, Peer, ask, get, get_slow, serving, until


async def test_a_port_in_use_is_an_error_that_names_the_address(server: Server, echo: Echo) -> None:
    port = int(server.address.rpartition(":")[2])

    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
        await Server(Router(echo), host="127.0.0.1", port=port, clock=ManualClock()).open()


async def test_a_server_on_ipv6_shows_its_address_in_brackets(client: Client, echo: Echo) -> None:
    server = Server(Router(echo), host="::1", port=0, clock=ManualClock())
    try:
        await server.open()
    except ConfigurationError:
        pytest.skip("no IPv6 here")

    assert server.address.startswith("[::1]:")
    assert (await client.call(server.address, get("six"))).fields.value == "six"
    await server.close()


async def test_on_closed_is_called_for_every_connection_that_ends(echo: Echo) -> None:
    ended: list[str] = []
    async with serving(echo, on_closed=lambda connection: ended.append(connection.remote)) as server:
        async with await Peer.to(server.address) as peer:
            await until(lambda: server.connections == 1)
        await until(lambda: ended)

    assert ended == [peer.name]


async def test_close_ends_idle_and_working_connections_within_a_second(echo: Echo) -> None:
    async with (
        Client() as idle,
        Client() as working,
        serving(echo) as server,
    ):
        await idle.call(server.address, get())
        waiting = asyncio.create_task(working.call(server.address, get_slow("never")))
        await until(lambda: "never" in echo.asked)
        start = time.monotonic()

        await server.close()

        assert time.monotonic() - start < 1
        assert server.connections == 0
        with pytest.raises(ConnectionLost):
            await waiting
    assert [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)] == []


async def test_close_ends_a_connection_whose_peer_does_not_read_within_a_second(echo: Echo) -> None:
    echo.answer_size = 8 * 1024 * 1024
    async with serving(echo) as server, await Peer.to(server.address, receive_buffer=4096) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(ask())
        await until(lambda: echo.asked)
        start = time.monotonic()

        await server.close()

        assert time.monotonic() - start < 1
        assert server.connections == 0


async def test_answers_already_written_reach_a_peer_of_a_closing_server(echo: Echo) -> None:
    echo.answer_size = 100_000
    async with serving(echo) as server, await Peer.to(server.address) as peer:
        await peer.send(ask())
        await until(lambda: echo.asked)

        await server.close()

        assert len((await peer.answer()).body) == 100_000


async def test_a_connection_being_accepted_does_not_outlive_the_server(echo: Echo) -> None:
    """asyncio calls connection_made one loop iteration after accept; the server may close in between."""
    async with serving(echo) as server:
        incoming, peer = socket.socketpair()

        await server.close()
        _, connection = await asyncio.get_running_loop().create_connection(server._accept, sock=incoming)

        await asyncio.wait_for(connection.closed, 5)
        assert server.connections == 0
        peer.close()


async def test_a_closed_server_can_be_opened_again(client: Client, echo: Echo) -> None:
    server = Server(Router(echo), host="127.0.0.1", port=0, clock=ManualClock())
    for name in ("once", "twice"):
        await server.open()
        assert (await client.call(server.address, get(name))).fields.value == name
        await server.close()
