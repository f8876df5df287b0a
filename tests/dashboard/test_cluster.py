from pathlib import Path

from kerolox.dashboard.server import DashboardOptions
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


async def test_brokers_are_shown_with_their_version_and_disk(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/")

    assert "1 of 1 answer" in seen
    assert f"broker-a DefaultCluster master {cluster.brokers[0].address} V5_5_0" in seen


async def test_a_broker_says_all_of_itself_but_its_secrets(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/broker", address=cluster.brokers[0].address)

    assert "commitLogMaxOffset" in seen
    assert "brokerClusterName DefaultCluster" in seen


async def test_only_brokers_of_the_cluster_are_asked(visitor: Visitor) -> None:
    assert "no NameServer lists a broker at '127.0.0.1:22'" in await visitor.see("/broker", 404, address="127.0.0.1:22")


async def test_a_broker_that_does_not_answer_is_a_sentence_on_the_page(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "cluster", brokers=2) as cluster:
        options = DashboardOptions(namesrv_addr=cluster.namesrv_addr)
        async with visiting(options, tmp_path) as visitor:
            await cluster.brokers[1].server.close()

            seen = await visitor.see("/")

    assert "1 of 2 answer" in seen
    assert "broker-b/0 at" in seen
