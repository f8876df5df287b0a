"""Metrics as Prometheus reads them: what they are, how they are written, and how many series there may be."""

import os
import resource
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.runtime.tallies import Histogram, Labels

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
    """A metric is declared once; the page of metrics is made from these."""

    name: str
    kind: Kind
    help: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Family:
    """What was measured of a metric; each sample has a value for each of its labels."""

    metric: Metric
    samples: list[Sample]
    # The same for all of them: who tells it.
    common: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        yield from _head(self.metric)
        common = _written(self.common.items())
        for values, number in self.samples:
            own = _written(zip(self.metric.labels, values, strict=True))
            yield _line(self.metric.name, common + own, number)


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """The same of a histogram."""

    metric: Metric
    samples: list[tuple[Labels, Histogram]]
    common: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        name = self.metric.name
        yield from _head(self.metric)
        common = _written(self.common.items())
        for values, histogram in self.samples:
            labels = common + _written(zip(self.metric.labels, values, strict=True))
            passed = 0
            for bound, count in zip([*map(float, histogram.bounds), "+Inf"], histogram.counts, strict=True):
                passed += count
                yield _line(f"{name}_bucket", [*labels, f'le="{bound}"'], passed)
            yield _line(f"{name}_sum", labels, histogram.total)
            yield _line(f"{name}_count", labels, passed)


Told = Family | HistogramFamily


def _head(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n"
    yield f"# TYPE {metric.name} {metric.kind.value}\n"


def _written(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs]


def _line(name: str, labels: list[str], number: float) -> str:
    return f"{name}{{{','.join(labels)}}} {number}\n" if labels else f"{name} {number}\n"


class Series:
    """Which values of labels have a series of their own: the first so many that came. The others share one.

    Who has once come too late stays with the others, so that no counter moves from one series to another.
    """

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._own: set[Labels] = set()
        # Of each counter the sum of the others when it was last looked at, and what was told of them.
        self._shared: dict[str, tuple[float, float]] = {}

    def is_own(self, key: Labels) -> bool:
        if key in self._own:
            return True
        # What clients call themselves may be of any length.
        if len(self._own) >= self._series_max or any(len(part) > _LABEL_SIZE_MAX for part in key):
            return False
        self._own.add(key)
        return True

    def shared(self, name: str, rest: float) -> float:
        """Returns what is told of the others of a counter, whose sum is now `rest`; it never goes down."""
        before, total = self._shared.get(name, (0.0, 0.0))
        total += max(0.0, rest - before)
        self._shared[name] = (rest, total)
        return total

    def gauges(self, samples: Iterable[tuple[Labels, Labels, float]], others: Labels) -> list[Sample]:
        """Returns the samples (key, labels, value) of a gauge, those of the others as one with the labels `others`."""
        told: list[Sample] = []
        rest, has_others = 0.0, False
        for key, labels, value in samples:
            if self.is_own(key):
                told.append((labels, value))
            else:
                rest, has_others = rest + value, True
        return [*told, (others, rest)] if has_others else told


_PROCESS = {
    "cpu": Metric("process_cpu_seconds_total", Kind.COUNTER, "User and system time of this process, in seconds."),
    "resident": Metric("process_resident_memory_bytes", Kind.GAUGE, "Memory that is resident, in bytes."),
    "files": Metric("process_open_fds", Kind.GAUGE, "Files and connections that are open."),
    "files_max": Metric("process_max_fds", Kind.GAUGE, "How many of them may be."),
}
PROCESS_METRICS = tuple(_PROCESS.values())


def process() -> list[Family]:
    """Returns what every process tells of itself, under the names that Prometheus' own libraries use."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[str, float] = {
        "cpu": usage.ru_utime + usage.ru_stime,
        "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    try:
        found["files"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        found["resident"] = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        # Only Linux tells.
        pass
    return [Family(_PROCESS[name], [((), value)], {}) for name, value in found.items()]
