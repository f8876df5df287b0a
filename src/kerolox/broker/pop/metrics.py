"""Counters of POP consumption (PopMetricsManager)."""

from kerolox.runtime.metrics.counters import LabelCounter

CHECKPOINT, ACK = "CK", "ACK"


class PopMetrics:
    """Checkpoints and acks written to and read from the revive log, and messages revived, by topic and group."""

    def __init__(self) -> None:
        # Labels: topic, group, CHECKPOINT or ACK.
        self.written = LabelCounter()
        # Labels: topic, group, queue of the revive log, CHECKPOINT or ACK.
        self.read = LabelCounter()
        self.revived = LabelCounter()
