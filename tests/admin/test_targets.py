"""Targets of requests, and merging of several responses."""

import asyncio

import pytest

from kerolox.admin import AdminClient, PartlyDone, UnknownBroker, UnknownCluster
from kerolox.admin.targets import broker_at, the_cluster
from kerolox.codes import CURRENT_VERSION
from kerolox.errors import RemotingError, TopicNotFound
from kerolox.testing import Cluster
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo
from tests.admin.clients import TOPIC

TWO = ClusterInfo(
    {
        "a": BrokerData("a", "one", {0: "127.0.0.1:1", 1: "127.0.0.1:2"}),
        "b": BrokerData("b", "two", {1: "127.0.0.1:3"}),
    },
    {"one": ["a"], "two": ["b"]},
)


def test_the_cluster_must_be_given_if_there_are_several() -> None:
    assert the_cluster(TWO, "two") == "two"
    with pytest.raises(UnknownCluster, match="which cluster is meant\\? Known: one, two"):
        the_cluster(TWO, None)
    with pytest.raises(UnknownCluster, match="Known: none"):
        the_cluster(ClusterInfo(), None)


def test_broker_at_finds_a_broker_by_address() -> None:
    assert broker_at(TWO, "127.0.0.1:2") == "a"
    assert broker_at(TWO, "127.0.0.1:4") is None


async def test_a_broker_without_a_master_is_an_error(admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def info() -> ClusterInfo:
        return TWO

    servers = admin._servers
    monkeypatch.setattr(servers, "cluster_info", info)

    assert await servers.masters(cluster="one") == {"a": "127.0.0.1:1"}
    assert await servers.all_masters() == {"a": "127.0.0.1:1"}
    assert await servers.masters(broker="127.0.0.1:3") == {"127.0.0.1:3": "127.0.0.1:3"}
    assert [await servers.name(broker) for broker in ("127.0.0.1:3", "127.0.0.1:9", "b")] == ["b", "127.0.0.1:9", "b"]
    with pytest.raises(UnknownBroker, match=r"'b' has no living master, only 1: 127.0.0.1:3"):
        await servers.address("b")
    with pytest.raises(UnknownBroker, match="cluster 'two' has no living master"):
        await servers.masters(cluster="two")


async def test_a_stopped_broker_raises_partly_done(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    await admin_of_two.topics.create(TOPIC)
    servers = admin_of_two._servers
    brokers = {"broker-a": two_brokers.brokers[0].address, "gone": "127.0.0.1:1"}

    with pytest.raises(PartlyDone) as caught:
        await servers.each("asking", brokers, servers.version)

    assert caught.value.done == {"broker-a": CURRENT_VERSION}
    assert list(caught.value.failed) == ["gone"]
    assert isinstance(caught.value.failed["gone"], RemotingError)


async def test_one_error_is_raised_if_all_servers_fail_for_the_same_reason(admin_of_two: AdminClient) -> None:
    with pytest.raises(TopicNotFound):
        await admin_of_two.topics.configs("unknown")


async def test_first_returns_the_first_success(admin: AdminClient, cluster: Cluster) -> None:
    servers = admin._servers

    assert await servers.first({"gone": "127.0.0.1:1", "a": cluster.brokers[0].address}, servers.version) > 0
    with pytest.raises(UnknownBroker, match="no living broker"):
        await servers.first({}, servers.version)


async def test_the_first_failure_cancels_the_others(admin: AdminClient) -> None:
    ended = asyncio.Event()

    async def ask(item: int) -> None:
        if item == 1:
            raise UnknownBroker("gone")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(UnknownBroker):
        # More than are asked at once.
        await admin._servers.gather(range(100), ask)

    assert ended.is_set()
