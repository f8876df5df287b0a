"""The brokers that a command addresses."""

import pytest

from kerolox.admin import AdminClient, AdminError, UnknownCluster
from kerolox.cli.admin.broker_options import addresses_by_broker, broker_addresses, cluster_of, master_addresses
from kerolox.cli.admin.command import Call
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo

INFO = ClusterInfo(
    {
        "a": BrokerData("a", "c", {0: "a:0", 1: "a:1"}),
        "b": BrokerData("b", "c", {0: "b:0"}),
        "d": BrokerData("d", "lost", {1: "d:1"}),
    },
    {"c": ["b", "a"], "lost": ["d"]},
)


def call_with(monkeypatch: pytest.MonkeyPatch, **values: str) -> Call:
    admin = AdminClient(namesrv_addr="127.0.0.1:9876")

    async def info() -> ClusterInfo:
        return INFO

    monkeypatch.setattr(admin.cluster, "info", info)
    return Call(admin, values)


async def test_a_broker_address_is_used_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_with(monkeypatch, brokerAddr="x:1")

    assert await master_addresses(call) == await broker_addresses(call) == ["x:1"]


async def test_a_cluster_is_resolved_to_its_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_with(monkeypatch, clusterName="c")

    assert await master_addresses(call) == ["a:0", "b:0"]
    assert await broker_addresses(call) == ["a:0", "a:1", "b:0"]
    assert await addresses_by_broker(call, "c") == [["a:0", "a:1"], ["b:0"]]


async def test_an_unknown_cluster_or_one_without_masters_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownCluster, match="unknown cluster 'x'; known clusters: c, lost"):
        await master_addresses(call_with(monkeypatch, clusterName="x"))
    with pytest.raises(AdminError, match="'lost' has no master that is online"):
        await master_addresses(call_with(monkeypatch, clusterName="lost"))


def test_cluster_of_finds_the_cluster_of_a_broker() -> None:
    assert (cluster_of(INFO, "a"), cluster_of(INFO, "nobody")) == ("c", None)
