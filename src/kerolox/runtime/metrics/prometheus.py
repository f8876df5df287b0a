"""Prometheus metrics: declarations, the text format, and a limit on the number of series."""

import os
import resource
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.runtime.metrics.counters import Histogram, Labels

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Labels, float]

_LABEL_SIZE_MAX = 256
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


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

    def lines(self) -> Iterator[str]:
        yield from _head(self.metric)
        common = _format_labels(self.common.items())
        for values, number in self.samples:
            own = _format_labels(zip(self.metric.labels, values, strict=True))
            yield _line(self.metric.name, common + own, number)


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """The samples of a histogram metric."""

    metric: Metric
    samples: list[tuple[Labels, Histogram]]
    common: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        name = self.metric.name
        yield from _head(self.metric)
        common = _format_labels(self.common.items())
        for values, histogram in self.samples:
            labels = common + _format_labels(zip(self.metric.labels, values, strict=True))
            cumulative = 0
            for bound, count in zip([*map(float, histogram.bounds), "+Inf"], histogram.counts, strict=True):
                cumulative += count
                yield _line(f"{name}_bucket", [*labels, f'le="{bound}"'], cumulative)
            yield _line(f"{name}_sum", labels, histogram.total)
            yield _line(f"{name}_count", labels, cumulative)


MetricFamily = Family | HistogramFamily


def _head(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n"
    yield f"# TYPE {metric.name} {metric.kind.value}\n"


def _format_labels(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs]


def _line(name: str, labels: list[str], number: float) -> str:
    return f"{name}{{{','.join(labels)}}} {number}\n" if labels else f"{name} {number}\n"


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
        """Returns the value of a counter's shared series, given the sum of its values; it never decreases.

        `rest` itself may: the things that it counts may be deleted.
        """
        before, total = self._shared.get(name, (0.0, 0.0))
        total += max(0.0, rest - before)
        self._shared[name] = (rest, total)
        return total

    def gauges(self, samples: Iterable[tuple[Labels, Labels, float]], others: Labels) -> list[Sample]:
        """Returns the samples of a gauge from (key, labels, value); keys without a series are summed under `others`."""
        own: list[Sample] = []
        rest, has_others = 0.0, False
        for key, labels, value in samples:
            if self.is_own(key):
                own.append((labels, value))
            else:
                rest, has_others = rest + value, True
        return [*own, (others, rest)] if has_others else own


_PROCESS = {
    "cpu": Metric("process_cpu_seconds_total", Kind.COUNTER, "User and system CPU time of this process, in seconds."),
    "resident": Metric("process_resident_memory_bytes", Kind.GAUGE, "Resident memory size, in bytes."),
    "files": Metric("process_open_fds", Kind.GAUGE, "Open file descriptors (files and connections)."),
    "files_max": Metric("process_max_fds", Kind.GAUGE, "Limit of open file descriptors."),
}
PROCESS_METRICS = tuple(_PROCESS.values())


def process() -> list[Family]:
    """Returns the metrics of this process, under the names that the Prometheus client libraries use."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[str, float] = {
        "cpu": usage.ru_utime + usage.ru_stime,
        "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    try:
        found["files"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        found["resident"] = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        # Only Linux has these files.
        pass
    return [Family(_PROCESS[name], [((), value)], {}) for name, value in found.items()]
