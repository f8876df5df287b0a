"""The fixture that any user's test can have."""

import asyncio
import time
from pathlib import Path

from kerolox.remoting.client import Client
from kerolox.testing import Cluster
from kerolox.testing.plugin import RunningCluster
from kerolox.wire.bodies.routes import ClusterInfo
from kerolox.wire.headers.namesrv import GetBrokerClusterInfo
from tests.broker.brokers import sending


def test_a_test_without_an_event_loop_has_a_cluster(kerolox_cluster: RunningCluster) -> None:
    async def ask() -> str | None:
        async with Client() as client:
            return (await client.call(kerolox_cluster.broker_addr, sending("orders"), b"body")).fields.msg_id

    assert asyncio.run(ask())


async def test_a_cluster_has_as_many_brokers_as_asked_for_and_they_are_registered(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster, Client() as client:
        reply = await client.call(cluster.namesrv_addr, GetBrokerClusterInfo())

    table = ClusterInfo.decode(reply.body).broker_addr_table
    assert sorted(table) == ["broker-a", "broker-b"]


def test_it_is_there_in_a_moment(tmp_path: Path) -> None:
    seconds = []
    for number in range(5):
        begun = time.perf_counter()
        with RunningCluster(tmp_path / str(number)):
            seconds.append(time.perf_counter() - begun)

    # The best of several, for the machine may be busy.
    assert min(seconds) < 0.3
