"""Freed connections, and PROXY headers."""

import gc
import weakref
from pathlib import Path

import pytest

from kerolox.namesrv import NameServer, NamesrvConfig
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture
from tests.remoting.support import Peer, ask, complaints, until

PROXY = b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n"


def config(directory: Path, **changes: str) -> NamesrvConfig:
    made = NamesrvConfig(listen_port=0, kv_config_path=directory / "kv.json")
    made.update(changes)
    return made


async def test_proxy_headers_are_refused_unless_configured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with NameServer(config(tmp_path)) as server, await Peer.to(server.address) as peer:
        await peer.send(PROXY + ask())

        assert await peer.rest() == b""
        assert complaints(caplog)[0].startswith(f"closed the connection from {peer.name}: PROXY header from")


async def test_proxy_headers_of_trusted_addresses_are_accepted(tmp_path: Path) -> None:
    trusting = config(tmp_path, proxyProtocolTrustedAddresses="127.0.0.0/8")
    async with NameServer(trusting) as server, await Peer.to(server.address) as peer:
        await peer.send(PROXY + ask())

        assert (await peer.answer()).opaque == 7
        assert [connection.remote for connection in server.server._connections] == ["203.0.113.9:5555"]


async def test_the_connection_of_a_registered_broker_is_freed_when_it_closes(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)
    (closed,) = [weakref.ref(connection) for connection in namesrv.server.server._connections]
    gc.collect()
    gc.disable()
    try:
        await broker.disconnect()

        await until(lambda: closed() is None)
    finally:
        gc.enable()
