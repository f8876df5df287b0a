"""Closed connections are freed; addresses from PROXY headers."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.remoting.client import Client
from tests.broker.brokers import pulling, running, sending
from tests.remoting.support import Peer, ask_unknown, complaints, until

PROXY = b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n"


@pytest.fixture
def _no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_garbage_collector")
async def test_a_closed_connection_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.send("orders", b"hello")
        await broker.heartbeat(consumes={"group": ["orders"]}, produces=("producers",))
        await broker.pull("orders", 0)
        server = broker.broker.server
        closed = [weakref.ref(connection) for connection in server._connections]
        waiting = asyncio.create_task(broker.call(pulling("orders", 0, 1, sys_flag=0x6, suspend_timeout_millis=60_000)))
        await broker.until_waiting("orders")

        await broker.client.close()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: not server.connections)
        # The server keeps a connection with running tasks until its next round.
        await until(lambda: not any(connection.is_working for connection in server._leaving))
        server._leaving.clear()

        await until(lambda: not any(reference() for reference in closed))
        async with Client() as other:
            await other.call(broker.broker.address, sending("orders"), b"after")


async def test_proxy_headers_are_ignored_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as broker, await Peer.to(broker.broker.address) as peer:
        await peer.send(PROXY + ask_unknown())

        assert await peer.rest() == b""
        assert complaints(caplog)[0].startswith(f"closed the connection from {peer.name}: PROXY header from")


async def test_proxy_headers_of_trusted_proxies_are_used(tmp_path: Path) -> None:
    trusting = running(tmp_path, proxyProtocolTrustedAddresses="127.0.0.1")
    async with trusting as broker, await Peer.to(broker.broker.address) as peer:
        await peer.send(PROXY + ask_unknown())

        assert (await peer.answer()).opaque == 7
        assert [connection.remote for connection in broker.broker.server._connections] == ["203.0.113.9:5555"]
