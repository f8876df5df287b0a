from pathlib import Path

from kerolox.admin import AdminClient
from kerolox.dashboard.server import DashboardOptions
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


async def test_one_nameserver_is_shown_with_its_brokers(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/nameservers")

    assert f"{cluster.namesrv_addr} answers" in seen
    assert f"broker-a/0 at {cluster.brokers[0].address}" in seen


async def test_nameservers_that_disagree_are_told_apart(cluster: Cluster, tmp_path: Path) -> None:
    config = NamesrvConfig(
        listen_port=0, kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties"
    )
    async with NameServer(config) as lonely:
        address = lonely.address
        both = f"{cluster.namesrv_addr};{address}"
        async with visiting(DashboardOptions(namesrv_addr=both), tmp_path) as visitor:
            seen = await visitor.see("/nameservers")

    assert "They do not agree" in seen
    assert f"{cluster.namesrv_addr} lists broker broker-a/0 at" in seen
    assert f"and {address} does not." in seen


async def test_nameservers_of_one_mind_are_told_so(cluster: Cluster, admin: AdminClient, tmp_path: Path) -> None:
    await admin.topics.create("orders")
    twice = f"{cluster.namesrv_addr};localhost:{cluster.namesrv_addr.rpartition(':')[2]}"

    async with visiting(DashboardOptions(namesrv_addr=twice), tmp_path) as visitor:
        assert "All 2 agree on brokers, topics and routes" in await visitor.see("/nameservers")


async def test_a_nameserver_that_is_away_is_a_sentence(cluster: Cluster, tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=f"{cluster.namesrv_addr};127.0.0.1:1")
    async with visiting(options, tmp_path) as visitor:
        seen = await visitor.see("/nameservers")

    assert "cannot connect to 127.0.0.1:1" in seen
    assert "There is one that answers" in seen
