"""A cluster in one process."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker import Settings
from kerolox.errors import ServiceFailed
from kerolox.local.cluster import Cluster, broker_name
from kerolox.namesrv import NamesrvConfig
from kerolox.namesrv.broker_liveness import ExpiryScan
from kerolox.runtime.service import Service
from kerolox.store.timer.timer import Timer
from tests.broker.brokers import SMALL


def cluster(directory: Path) -> Cluster:
    settings = Settings()
    settings.update({**SMALL, "listenPort": "0", "storePathRootDir": str(directory), "brokerName": "broker-a"})
    return Cluster(NamesrvConfig(listen_port=0, kv_config_path=directory / "kv.json"), [settings])


async def test_brokers_register_with_the_name_server(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        assert [broker.address for broker in running.brokers] == [
            each.address for each in running.name_server.table.live
        ]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ExpiryScan, "NameServer failed: ExpiryScan failed: RuntimeError: no more"),
        (Timer, "broker broker-a failed: Timer failed: RuntimeError: no more"),
    ],
)
async def test_a_failed_service_closes_all_servers_and_is_raised(
    tmp_path: Path, kind: type[Service], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asyncio.Event()
    address = ""

    async def fail(service: Service) -> None:
        await wanted.wait()
        raise RuntimeError("no more")

    async def body(running: Cluster) -> None:
        nonlocal address
        address = running.namesrv_addr
        wanted.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(kind, "run", fail)
    with pytest.raises(ServiceFailed) as raised:
        async with asyncio.timeout(30), cluster(tmp_path) as running:
            await body(running)

    assert str(raised.value) == message
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert not (tmp_path / "abort").exists()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address.split(":"))


def test_broker_names_after_z_have_numbers() -> None:
    assert [broker_name(number) for number in (0, 1, 25, 26)] == ["broker-a", "broker-b", "broker-z", "broker-26"]
