"""The pytest fixture of the plugin."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from kerolox.errors import ServiceFailed
from kerolox.remoting.client import Client
from kerolox.store.timer.timer import Timer
from kerolox.testing import Cluster
from kerolox.testing.plugin import RunningCluster
from kerolox.wire.bodies.routes import ClusterInfo
from kerolox.wire.headers.namesrv import GetBrokerClusterInfo
from tests.broker.brokers import sending


def test_the_fixture_works_without_an_event_loop(kerolox_cluster: RunningCluster) -> None:
    async def ask() -> str | None:
        async with Client() as client:
            return (await client.call(kerolox_cluster.broker_addr, sending("orders"), b"body")).fields.msg_id

    assert asyncio.run(ask())


async def test_a_cluster_has_the_requested_number_of_registered_brokers(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster, Client() as client:
        reply = await client.call(cluster.namesrv_addr, GetBrokerClusterInfo())

    table = ClusterInfo.decode(reply.body).broker_addr_table
    assert sorted(table) == ["broker-a", "broker-b"]


def test_a_cluster_starts_quickly(tmp_path: Path) -> None:
    seconds = []
    for number in range(5):
        begun = time.perf_counter()
        with RunningCluster(tmp_path / str(number)):
            seconds.append(time.perf_counter() - begun)

    # The best of several, for the machine may be busy.
    assert min(seconds) < 0.3


def test_a_service_failure_is_raised_at_the_end_of_the_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    async def fail(timer: Timer) -> None:
        failed.set()
        raise RuntimeError("no more")

    monkeypatch.setattr(Timer, "run", fail)
    cluster = RunningCluster(tmp_path)
    with pytest.raises(ServiceFailed, match="broker broker-a failed: Timer failed: RuntimeError: no more"), cluster:
        assert failed.wait(30)


async def test_a_service_failure_cancels_the_body_of_async_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(timer: Timer) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(Timer, "run", fail)
    with pytest.raises(ServiceFailed, match="broker broker-a failed: Timer failed: RuntimeError: no more"):
        async with asyncio.timeout(30), Cluster(tmp_path):
            await asyncio.Event().wait()
