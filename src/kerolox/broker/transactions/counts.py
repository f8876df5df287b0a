"""What metrics tell of transactions."""

from kerolox.runtime.tallies import Histograms, Tally

# How long they take until they are committed, in seconds, as Java tells apart (BrokerMetricsManager).
_SECONDS = (5, 60, 600, 3600, 43_200, 86_400)


class TransactionCounts:
    """What became of half messages, by the topic that they were for."""

    def __init__(self) -> None:
        self.committed, self.rolled_back = Tally(), Tally()
        self.seconds = Histograms(_SECONDS)
