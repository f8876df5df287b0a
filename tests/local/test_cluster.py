"""Servers of one process."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker import Settings
from kerolox.local.cluster import Cluster, broker_name
from kerolox.namesrv import NamesrvConfig
from tests.broker.brokers import SMALL


async def test_brokers_are_told_of_the_name_server_and_its_failures_are_heard(tmp_path: Path) -> None:
    settings = Settings()
    settings.update({**SMALL, "listenPort": "0", "storePathRootDir": str(tmp_path), "brokerName": "broker-a"})
    config = NamesrvConfig(listen_port=0, kv_config_path=tmp_path / "kv.json")
    async with Cluster(config, [settings]) as cluster:
        assert [broker.address for broker in cluster.brokers] == [
            each.address for each in cluster.name_server.table.live
        ]
        waiting = asyncio.create_task(cluster.wait())

        async def fail() -> None:
            raise RuntimeError("no more")

        cluster.brokers[0].wait = fail  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="no more"):
            await cluster.wait()
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


def test_names_go_on_where_letters_end() -> None:
    assert [broker_name(number) for number in (0, 1, 25, 26)] == ["broker-a", "broker-b", "broker-z", "broker-26"]
