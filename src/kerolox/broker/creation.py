"""How long it takes to make or change topics and groups, which metrics tell."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from kerolox.runtime.tallies import Histograms

# In milliseconds, as Java tells apart (BrokerMetricsManager).
_MILLIS = (10, 100, 1000, 3000, 5000)


def creation_times() -> Histograms:
    return Histograms(_MILLIS)


@contextmanager
def timed(times: Histograms, *labels: str) -> Iterator[None]:
    """Notes how long it took, under whether it was done and the labels."""
    began = perf_counter()
    status = "failure"
    try:
        yield
        status = "success"
    finally:
        times.add((perf_counter() - began) * 1000, status, *labels)
