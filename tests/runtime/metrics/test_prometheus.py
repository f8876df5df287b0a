"""The Prometheus text format, and the limit on series."""

import pytest
from prometheus_client import Metric as ClientMetric
from prometheus_client.openmetrics import parser as open_metrics_parser
from prometheus_client.parser import text_string_to_metric_families

from kerolox.broker.metrics.names import METRICS
from kerolox.runtime.metrics.counters import OTHER, Histogram
from kerolox.runtime.metrics.prometheus import (
    Family,
    HistogramFamily,
    Kind,
    Metric,
    MetricFamily,
    Series,
    TextFormat,
    encode,
)

SENT = Metric("sent_total", Kind.COUNTER, "Messages sent.", ("topic",))


def parsed(
    *families: MetricFamily, text_format: TextFormat = TextFormat.PLAIN
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return values by name and labels, as the Prometheus client library parses them, without those of the process."""
    text = encode(families, text_format).decode()
    read = (
        text_string_to_metric_families
        if text_format is TextFormat.PLAIN
        else open_metrics_parser.text_string_to_metric_families
    )
    found: list[ClientMetric] = list(read(text))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in found
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


@pytest.mark.parametrize("text_format", TextFormat)
def test_the_prometheus_parsers_read_both_formats(text_format: TextFormat) -> None:
    odd = 'a "quoted" \\ back\nslash, {brace}="x"'
    family = Family(SENT, [(("orders",), 3), ((odd,), 1.5)], {"cluster": "c"})

    assert parsed(family, text_format=text_format) == {
        ("sent_total", (("cluster", "c"), ("topic", "orders"))): 3,
        ("sent_total", (("cluster", "c"), ("topic", odd))): 1.5,
    }


@pytest.mark.parametrize("text_format", TextFormat)
def test_every_metric_of_a_broker_keeps_its_name_in_both_formats(text_format: TextFormat) -> None:
    families: list[MetricFamily] = []
    for metric in METRICS:
        labels = tuple("x" for _ in metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            families.append(HistogramFamily(metric, [(labels, Histogram((1, 5)))], {}))
        else:
            families.append(Family(metric, [(labels, 1)], {}))

    names = {name for name, _ in parsed(*families, text_format=text_format)}

    suffixes = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
    assert names == {metric.name + suffix for metric in METRICS for suffix in suffixes.get(metric.kind, ("",))}


def test_a_metric_without_labels_has_no_braces() -> None:
    family = Family(Metric("up", Kind.GAUGE, "Whether."), [((), 1)], {})

    assert "up 1.0" in encode([family]).decode().splitlines()


def export_counter(series: Series, **values: float) -> dict[str, float]:
    """Return the exported series of a counter."""
    own = {name: value for name, value in values.items() if series.is_own((name,))}
    rest = series.shared("sent_total", sum(value for name, value in values.items() if name not in own))
    return own | ({OTHER: rest} if rest else {})


def test_labels_beyond_the_limit_share_one_series() -> None:
    series = Series(2)

    assert export_counter(series, a=1, b=2, c=3, d=4) == {"a": 1, "b": 2, OTHER: 7}
    assert export_counter(series, d=5, c=3, b=2, a=1) == {"b": 2, "a": 1, OTHER: 8}


def test_labels_keep_their_series_and_the_shared_counter_never_decreases() -> None:
    series = Series(1)
    export_counter(series, a=1, b=10, c=20)

    assert export_counter(series, b=11, c=20) == {OTHER: 31}
    assert export_counter(series, b=12) == {OTHER: 31}
    assert export_counter(series, b=13) == {OTHER: 32}


def test_the_shared_gauge_is_a_sum_and_may_decrease() -> None:
    series = Series(1)

    def export_gauge(**values: float) -> dict[str, float]:
        return {
            labels[0]: value
            for labels, value in series.gauges([((name,), (name,), value) for name, value in values.items()], (OTHER,))
        }

    assert export_gauge(a=1, b=2, c=3) == {"a": 1, OTHER: 5}
    assert export_gauge(a=1, b=1) == {"a": 1, OTHER: 1}
    assert export_gauge(a=1) == {"a": 1}


def test_labels_over_256_bytes_are_counted_as_other() -> None:
    assert export_counter(Series(10), a=1, **{"x" * 300: 2}) == {"a": 1, OTHER: 2}


def test_process_metrics_are_exported() -> None:
    found = {it.name: it.samples[0].value for it in text_string_to_metric_families(encode([]).decode())}

    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds"] > 0
    assert 0 < found["process_open_fds"] <= found["process_max_fds"]
