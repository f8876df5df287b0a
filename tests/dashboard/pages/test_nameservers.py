from pathlib import Path

from kerolox.admin import AdminClient
from kerolox.dashboard.server import DashboardOptions
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


async def test_a_nameserver_is_shown_with_its_brokers(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/nameservers")

    assert f"{cluster.namesrv_addr} reachable" in seen
    assert f"broker-a/0 at {cluster.brokers[0].address}" in seen


async def test_differences_between_nameservers_are_listed(cluster: Cluster, tmp_path: Path) -> None:
    config = NamesrvConfig(
        listen_port=0, kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties"
    )
    async with NameServer(config) as other:
        address = other.address
        both = f"{cluster.namesrv_addr};{address}"
        async with visiting(DashboardOptions(namesrv_addr=both), tmp_path) as visitor:
            seen = await visitor.see("/nameservers")

    assert "The NameServers differ" in seen
    assert f"{cluster.namesrv_addr} lists broker broker-a/0 at" in seen
    assert f"and {address} does not." in seen


async def test_agreeing_nameservers_are_reported(cluster: Cluster, admin: AdminClient, tmp_path: Path) -> None:
    await admin.topics.create("orders")
    twice = f"{cluster.namesrv_addr};localhost:{cluster.namesrv_addr.rpartition(':')[2]}"

    async with visiting(DashboardOptions(namesrv_addr=twice), tmp_path) as visitor:
        assert "All 2 NameServers agree on brokers, topics and routes" in await visitor.see("/nameservers")


async def test_an_unreachable_nameserver_is_reported_on_the_page(cluster: Cluster, tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=f"{cluster.namesrv_addr};127.0.0.1:1")
    async with visiting(options, tmp_path) as visitor:
        seen = await visitor.see("/nameservers")

    assert "cannot connect to 127.0.0.1:1" in seen
    assert "Only one NameServer responds" in seen
