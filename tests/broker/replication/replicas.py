"""A master and its slaves on real sockets and files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kerolox.namesrv import NameServer, NamesrvConfig
from tests.broker.brokers import BrokerFixture, running

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


@asynccontextmanager
async def name_server(directory: Path) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(listen_port=0, kv_config_path=directory / "kv.json", config_store_path=directory / "conf")
    async with NameServer(config) as server:
        yield server


@asynccontextmanager
async def pair(directory: Path, **changes: str) -> AsyncIterator[tuple[BrokerFixture, BrokerFixture]]:
    """A master and a slave that has found it through a NameServer."""
    async with (
        name_server(directory) as server,
        running(directory / "master", namesrvAddr=server.address, **changes) as master,
        running(directory / "slave", namesrvAddr=server.address, **SLAVE, **changes) as slave,
    ):
        yield master, slave


async def until(condition: Callable[[], object], *, seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
