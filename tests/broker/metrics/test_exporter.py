"""Metrics of a broker, compared with the messages that were sent and consumed."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kerolox.broker.metrics.names import METRICS
from kerolox.errors import ConfigurationError
from kerolox.remoting.config import MetricsLabel
from kerolox.runtime.metrics.prometheus import Family, HistogramFamily
from tests.broker.brokers import BrokerFixture, running, settings
from tests.golden import metrics
from tests.runtime.metrics.test_prometheus import parsed

ENABLED = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}


async def samples_of(fixture: BrokerFixture, metric: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its own labels, without the common ones."""
    families = [family for family in await fixture.broker.metrics.gather() if family.metric.name == metric]
    return {labels: value for family in families if isinstance(family, Family) for labels, value in family.samples}


async def histogram_counts(fixture: BrokerFixture, metric: str) -> dict[tuple[str, ...], int]:
    """Return the number of values of a histogram, by its own labels."""
    families = [family for family in await fixture.broker.metrics.gather() if family.metric.name == metric]
    return {
        labels: sum(histogram.counts)
        for family in families
        if isinstance(family, HistogramFamily)
        for labels, histogram in family.samples
    }


def commit(fixture: BrokerFixture, topic: str, group: str, offset: int) -> None:
    assert fixture.broker.offsets.commit(group, topic, 0, offset)


async def test_all_declared_metrics_are_exported_with_the_common_labels(tmp_path: Path) -> None:
    async with running(tmp_path, metricsLabel="zone:north, rack:7") as fixture:
        families = await fixture.broker.metrics.gather()

    common = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a", "zone": "north", "rack": "7"}
    assert {family.metric for family in families} == set(METRICS)
    assert len(families) == len(METRICS)
    assert all(family.common == common for family in families)


def test_names_and_labels_are_those_of_java() -> None:
    """Compared with the metrics of a broker of 5.5.0 (tests/golden), which had no dead letters.

    docs/reference/differences.md explains which metrics are missing here, and why.
    """
    java = metrics.load("5.5.0")
    own = {"cluster", "node_type", "node_id"}
    ours = {it.name: own | set(it.labels) for it in METRICS if it.name.startswith("rocketmq_")}

    assert ours.keys() - java.keys() == {"rocketmq_send_to_dlq_messages_total"}
    assert java.keys() - ours.keys() == {
        "rocketmq_half_messages",
        "rocketmq_message_size",
        "rocketmq_pop_buffer_scan_time_consume_milliseconds",
        "rocketmq_rpc_latency_milliseconds",
    }
    assert {name: java[name] ^ ours[name] for name in ours.keys() & java.keys() if java[name] != ours[name]} == {
        "rocketmq_messages_in_total": {"message_type"},
        "rocketmq_throughput_in_total": {"message_type"},
        "rocketmq_messages_out_total": {"is_retry"},
        "rocketmq_throughput_out_total": {"is_retry"},
    }


async def test_stored_and_delivered_messages_are_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for body in (b"one", b"two", b"three"):
            await fixture.send("orders", body)
        await fixture.pull("orders", 0, consumer_group="packers")

        messages_in = await samples_of(fixture, "rocketmq_messages_in_total")
        messages_out = await samples_of(fixture, "rocketmq_messages_out_total")
        size_in = await samples_of(fixture, "rocketmq_throughput_in_total")
        size_out = await samples_of(fixture, "rocketmq_throughput_out_total")
        stored = await samples_of(fixture, "rocketmq_storage_size_bytes")

    assert messages_in == {("orders", "false"): 3}
    assert messages_out == {("orders", "packers", "false"): 3}
    assert size_in[("orders", "false")] == size_out[("orders", "packers", "false")]
    assert stored == {("local", "disk"): size_in[("orders", "false")]}


async def test_lag_is_the_number_of_messages_after_the_committed_offset(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for number in range(5):
            await fixture.send("orders", b"%d" % number)
        commit(fixture, "orders", "packers", 2)
        commit(fixture, "orders", "readers", 5)

        lag = await samples_of(fixture, "rocketmq_consumer_lag_messages")
        latency = await samples_of(fixture, "rocketmq_consumer_lag_latency_milliseconds")

    assert lag == {("orders", "packers", "false", "false"): 3, ("orders", "readers", "false", "false"): 0}
    assert latency[("orders", "readers", "false", "false")] == 0
    assert 0 <= latency[("orders", "packers", "false", "false")] < 600_000


async def test_connections_are_counted_by_language_and_version(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        await fixture.heartbeat("c", consumes={"packers": ["orders"]}, produces=("shop",))

        producers = await samples_of(fixture, "rocketmq_producer_connections")
        consumers = await samples_of(fixture, "rocketmq_consumer_connections")

    ((language, version, protocol),) = producers
    assert list(producers.values()) == [1]
    assert consumers == {("packers", language, version, "push", protocol, "false"): 1}
    assert version == "v5_5_0"


async def test_topics_beyond_the_series_limit_are_summed_up_as_other(tmp_path: Path) -> None:
    async with running(tmp_path, metricsSeriesMax="2") as fixture:
        for number in range(5):
            await fixture.send(f"topic-{number}", b"x")
            commit(fixture, f"topic-{number}", "readers", 0)

        counted = await samples_of(fixture, "rocketmq_messages_in_total")
        lag = await samples_of(fixture, "rocketmq_consumer_lag_messages")

    assert counted == {("topic-0", "false"): 1, ("topic-1", "false"): 1, ("other", "false"): 3}
    assert sum(lag.values()) == 5
    assert ("other", "other", "false", "false") in lag
    assert len(lag) == 3


async def test_prometheus_can_parse_the_response_of_the_listener(tmp_path: Path) -> None:
    async with running(tmp_path, **ENABLED) as fixture:
        await fixture.send("orders", b"x")
        listener = fixture.broker.metrics_listener
        assert listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(listener.url).port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            answer = (await reader.read()).decode()
        writer.close()
        expected = parsed(*await fixture.broker.metrics.gather())

    names = {
        sample.name
        for family in text_string_to_metric_families(answer.partition("\r\n\r\n")[2])
        for sample in family.samples
    }
    assert {name for name, _ in expected} <= names
    assert "process_cpu_seconds_total" in names


async def test_the_metrics_listener_is_disabled_by_default(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        assert fixture.broker.metrics_listener is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("metricsExporterType", "OTLP_GRPC", "expected DISABLE, PROM"),
        ("metricsLabel", "no good:1", "metricsLabel='no good:1' cannot be used"),
        ("metricsSeriesMax", "0", "expected a number from 1 to 100000"),
    ],
)
def test_invalid_metrics_settings_are_rejected(tmp_path: Path, key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings(tmp_path, **{key: value})


def test_the_metrics_label_setting_has_the_syntax_of_java() -> None:
    assert MetricsLabel("a:1,b:x:y,").pairs == (("a", "1"), ("b", "x:y"))


async def test_dead_letters_are_counted_by_the_topic_they_were_consumed_from(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        fixture.broker.statistics.add("SNDBCK2DLQ_TIMES", "orders", "packers", 2)

        dead = await samples_of(fixture, "rocketmq_send_to_dlq_messages_total")

    assert dead == {("orders", "packers", "false"): 2}
