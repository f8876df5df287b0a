"""Durations of requests that create or change topics and groups, for metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from kerolox.runtime.metrics.counters import Histograms

# Buckets in milliseconds, as in Java's BrokerMetricsManager.
_BUCKETS_MILLIS = (10, 100, 1000, 3000, 5000)


def creation_times() -> Histograms:
    return Histograms(_BUCKETS_MILLIS)


@contextmanager
def timed(times: Histograms, *labels: str) -> Iterator[None]:
    """Add the duration of the block to `times`; the first label is `success` or, if it raised, `failure`."""
    began = perf_counter()
    status = "failure"
    try:
        yield
        status = "success"
    finally:
        times.add((perf_counter() - began) * 1000, status, *labels)
