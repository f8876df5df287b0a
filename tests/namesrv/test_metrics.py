"""Prometheus metrics of the NameServer."""

from pathlib import Path

from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.namesrv.metrics import METRICS
from kerolox.testing import Cluster


async def test_brokers_topics_and_connections_are_exported(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2, name="north") as cluster:
        families = await cluster.name_server.metrics.gather()
        topics = len(cluster.name_server.table.topics)

    samples = {family.metric.name: family.samples for family in families}
    assert [family.metric for family in families] == list(METRICS)
    assert samples["kerolox_namesrv_brokers"] == [(("north",), 2)]
    assert samples["kerolox_namesrv_topics"] == [((), topics)]
    assert samples["kerolox_namesrv_connections"] == [((), 2)]
    assert {family.common["node_type"] for family in families} == {"nameserver"}


async def test_the_metrics_listener_is_configurable(tmp_path: Path) -> None:
    config = NamesrvConfig(listen_port=0, kv_config_path=tmp_path / "kv.json")
    assert NameServer(config).metrics_listener is None
    config.update({"metricsExporterType": "PROM", "metricsPromExporterPort": "0"})

    async with NameServer(config) as server:
        assert server.metrics_listener is not None
        assert server.metrics_listener.url.startswith("http://127.0.0.1:")
