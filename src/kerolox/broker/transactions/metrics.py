"""Counters of transactions (BrokerMetricsManager)."""

from kerolox.runtime.metrics.counters import Histograms, LabelCounter

# Buckets of the time until a commit, as in Java.
_SECONDS = (5, 60, 600, 3600, 43_200, 86_400)


class TransactionMetrics:
    """Commits and rollbacks, by the topic that the half messages were sent to."""

    def __init__(self) -> None:
        self.committed, self.rolled_back = LabelCounter(), LabelCounter()
        self.seconds = Histograms(_SECONDS)
