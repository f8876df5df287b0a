"""Consume statistics per topic: rates over the last minute, failures over the last hour (ConsumerStatsManager)."""

from collections import deque
from dataclasses import dataclass, field

from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.running import ConsumeStatus

SAMPLE_SECONDS = 10.0
_MINUTE_SAMPLES = 6
_HOUR_SAMPLES = 360


@dataclass(slots=True)
class Counts:
    """Totals since the start. Callers increment the fields."""

    pulls: int = 0
    pulled: int = 0
    pull_seconds: float = 0.0
    calls: int = 0
    consumed: int = 0
    failed: int = 0
    consume_seconds: float = 0.0


@dataclass(slots=True)
class _TopicStatistics:
    now: Counts = field(default_factory=Counts)
    # (time, counts at that time), oldest first.
    samples: deque[tuple[float, Counts]] = field(default_factory=lambda: deque(maxlen=_HOUR_SAMPLES))


class ConsumeStatistics:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, _TopicStatistics] = {}

    def of(self, topic: str) -> Counts:
        """Return the counts of a topic for the caller to increment."""
        statistics = self._topics.get(topic)
        if statistics is None:
            statistics = self._topics[topic] = _TopicStatistics()
            statistics.samples.append((self._clock.monotonic(), Counts()))
        return statistics.now

    def sample(self) -> None:
        """Take a sample; the consumer calls this every 10 s."""
        for topic in self._topics.values():
            counts = topic.now
            topic.samples.append(
                (
                    self._clock.monotonic(),
                    Counts(
                        counts.pulls,
                        counts.pulled,
                        counts.pull_seconds,
                        counts.calls,
                        counts.consumed,
                        counts.failed,
                        counts.consume_seconds,
                    ),
                )
            )

    def status(self) -> dict[str, ConsumeStatus]:
        return {name: self._status(topic) for name, topic in self._topics.items()}

    def _status(self, topic: _TopicStatistics) -> ConsumeStatus:
        now, samples = topic.now, topic.samples
        then, before = samples[-min(_MINUTE_SAMPLES, len(samples))]
        seconds = max(self._clock.monotonic() - then, 0.001)
        return ConsumeStatus(
            consume_failed_msgs=now.failed - samples[0][1].failed,
            consume_failed_tps=(now.failed - before.failed) / seconds,
            consume_ok_tps=(now.consumed - before.consumed) / seconds,
            consume_rt=_millis(now.consume_seconds - before.consume_seconds, now.calls - before.calls),
            pull_rt=_millis(now.pull_seconds - before.pull_seconds, now.pulls - before.pulls),
            pull_tps=(now.pulled - before.pulled) / seconds,
        )


def _millis(seconds: float, count: int) -> float:
    return seconds * 1000 / count if count else 0.0
