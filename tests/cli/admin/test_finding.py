"""Which brokers a command is meant for."""

import pytest

from kerolox.admin import AdminClient, AdminError, UnknownCluster
from kerolox.cli.admin.declaring import Call
from kerolox.cli.admin.finding import cluster_of, everybody, masters, members_of
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo

INFO = ClusterInfo(
    {
        "a": BrokerData("a", "c", {0: "a:0", 1: "a:1"}),
        "b": BrokerData("b", "c", {0: "b:0"}),
        "d": BrokerData("d", "lost", {1: "d:1"}),
    },
    {"c": ["b", "a"], "lost": ["d"]},
)


def call(monkeypatch: pytest.MonkeyPatch, **values: str) -> Call:
    admin = AdminClient(namesrv_addr="127.0.0.1:9876")

    async def info() -> ClusterInfo:
        return INFO

    monkeypatch.setattr(admin.cluster, "info", info)
    return Call(admin, values)


async def test_a_broker_is_taken_as_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given = call(monkeypatch, brokerAddr="x:1")

    assert await masters(given) == await everybody(given) == ["x:1"]


async def test_a_cluster_has_masters_and_slaves(monkeypatch: pytest.MonkeyPatch) -> None:
    given = call(monkeypatch, clusterName="c")

    assert await masters(given) == ["a:0", "b:0"]
    assert await everybody(given) == ["a:0", "a:1", "b:0"]
    assert await members_of(given, "c") == [["a:0", "a:1"], ["b:0"]]


async def test_a_cluster_that_is_unknown_or_has_no_master_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownCluster, match="'x' is not known"):
        await masters(call(monkeypatch, clusterName="x"))
    with pytest.raises(AdminError, match="'lost' has no living master"):
        await masters(call(monkeypatch, clusterName="lost"))


def test_a_broker_is_of_a_cluster() -> None:
    assert (cluster_of(INFO, "a"), cluster_of(INFO, "nobody")) == ("c", None)
