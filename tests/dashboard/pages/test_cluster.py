import re
from pathlib import Path

import pytest

from kerolox.admin.config import Configuration
from kerolox.dashboard.server import DashboardOptions
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


async def test_brokers_are_shown_with_their_version_and_disk(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/")

    assert "1 of 1 reachable" in seen
    assert re.search(rf"broker-a DefaultCluster master {cluster.brokers[0].address} V5_5_0 0 0 0 0 (\d+%) \1 ", seen)


async def test_a_broker_page_has_runtime_info_and_configuration(visitor: Visitor, cluster: Cluster) -> None:
    seen = await visitor.see("/broker", address=cluster.brokers[0].address)

    assert "commitLogMaxOffset" in seen
    assert "brokerClusterName DefaultCluster" in seen


async def test_secret_settings_are_hidden(visitor: Visitor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.x brokers of Apache return accounts with passwords among their settings."""
    settings = {
        "initAuthenticationUser": '{"username":"root","password":"hush-1"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"hush-2"}',
        "tlsKeyPassword": "hush-3",
        "secretKey": "hush-4",
        "brokerClusterName": "shown",
    }

    async def configuration(self: Configuration, broker: str) -> dict[str, str]:
        return settings

    monkeypatch.setattr(Configuration, "broker", configuration)

    seen = await visitor.see("/broker", address=cluster.brokers[0].address)

    assert "hush" not in seen
    assert "initAuthenticationUser ••••••" in seen
    assert "brokerClusterName shown" in seen


async def test_only_brokers_of_the_cluster_are_contacted(visitor: Visitor) -> None:
    assert "no NameServer lists a broker at '127.0.0.1:22'" in await visitor.see("/broker", 404, address="127.0.0.1:22")


async def test_an_unreachable_broker_is_reported_on_the_page(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "cluster", brokers=2) as cluster:
        options = DashboardOptions(namesrv_addr=cluster.namesrv_addr)
        async with visiting(options, tmp_path) as visitor:
            await cluster.brokers[1].server.close()

            seen = await visitor.see("/")

    assert "1 of 2 reachable" in seen
    assert "broker-b/0 at" in seen
