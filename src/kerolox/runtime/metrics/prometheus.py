"""Prometheus metrics: declarations, their encoding with prometheus-client, and a limit on the number of series."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING

from kerolox.runtime.metrics.counters import Histogram, Labels

if TYPE_CHECKING:
    from prometheus_client import Metric as ClientMetric

Sample = tuple[Labels, float]

_LABEL_SIZE_MAX = 256


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class TextFormat(Enum):
    """The formats that Prometheus reads; the value is the content type."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric; the reference page of metrics is generated from these."""

    name: str
    kind: Kind
    help: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Family:
    """The samples of a metric; each has a value for each label of the metric."""

    metric: Metric
    samples: list[Sample]
    # Labels of all samples: they identify this process.
    common: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """The samples of a histogram metric."""

    metric: Metric
    samples: list[tuple[Labels, Histogram]]
    common: Mapping[str, str]


MetricFamily = Family | HistogramFamily


def encode(families: Sequence[MetricFamily], text_format: TextFormat = TextFormat.PLAIN) -> bytes:
    """Return the text of these metrics and those of this process.

    Takes some 10 us per sample, and the first call 50 ms more: call it in a thread.
    """
    # Imported here because many servers are never scraped, and the import costs megabytes.
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.openmetrics import exposition as open_metrics

    registry = CollectorRegistry()
    registry.register(_Collected([_client_metric(family) for family in families]))
    ProcessCollector(registry=registry)
    if text_format is TextFormat.PLAIN:
        return generate_latest(registry)
    encoded: bytes = open_metrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return encoded


class _Collected:
    """A collector of prometheus-client whose metrics are there already."""

    def __init__(self, metrics: list["ClientMetric"]) -> None:
        self._metrics = metrics

    def collect(self) -> list["ClientMetric"]:
        return self._metrics


def _client_metric(family: MetricFamily) -> "ClientMetric":
    from prometheus_client import core

    metric, common = family.metric, tuple(family.common.values())
    labels = (*family.common, *metric.labels)
    if isinstance(family, HistogramFamily):
        histograms = core.HistogramMetricFamily(metric.name, metric.help, labels=labels)
        for values, histogram in family.samples:
            bounds = [*map(str, map(float, histogram.bounds)), "+Inf"]
            buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
            histograms.add_metric((*common, *values), buckets, histogram.total)
        return histograms
    create = core.CounterMetricFamily if metric.kind is Kind.COUNTER else core.GaugeMetricFamily
    numbers = create(metric.name, metric.help, labels=labels)
    for values, number in family.samples:
        numbers.add_metric((*common, *values), number)
    return numbers


class Series:
    """Limits the series of a metric: the first `series_max` label values get their own, all others share one.

    A label value never moves between the shared series and its own, so that no counter jumps.
    """

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._own: set[Labels] = set()
        # Counter name → (sum of the values without a series at the last export, exported total of the shared series).
        self._shared: dict[str, tuple[float, float]] = {}

    def is_own(self, key: Labels) -> bool:
        if key in self._own:
            return True
        # Clients choose these names, and may choose very long ones.
        if len(self._own) >= self._series_max or any(len(part) > _LABEL_SIZE_MAX for part in key):
            return False
        self._own.add(key)
        return True

    def shared(self, name: str, rest: float) -> float:
        """Return the value of a counter's shared series, given the sum of its values; it never decreases.

        `rest` itself may: the things that it counts may be deleted.
        """
        before, total = self._shared.get(name, (0.0, 0.0))
        total += max(0.0, rest - before)
        self._shared[name] = (rest, total)
        return total

    def gauges(self, samples: Iterable[tuple[Labels, Labels, float]], others: Labels) -> list[Sample]:
        """Return the samples of a gauge from (key, labels, value); keys without a series are summed under `others`."""
        own: list[Sample] = []
        rest, has_others = 0.0, False
        for key, labels, value in samples:
            if self.is_own(key):
                own.append((labels, value))
            else:
                rest, has_others = rest + value, True
        return [*own, (others, rest)] if has_others else own
