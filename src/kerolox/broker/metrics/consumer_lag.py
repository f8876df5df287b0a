"""Consumer lag by topic and group: messages not consumed, in flight and ready, and their ages (ConsumerLagCalculator).

Offsets of one queue, from left to right:

    committed            delivered                 end
        |--- in flight ------|------- ready ---------|
        |------------------- lag --------------------|

Popped messages that are not acknowledged are in flight too. They lie before the committed offset, because pop commits
the offset up to which it has delivered.
"""

from kerolox.broker.metrics import names as m
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.assembly import Pop
from kerolox.broker.tables.groups import is_system_group
from kerolox.broker.tables.system_topics import DLQ_PREFIX, RETRY_PREFIX
from kerolox.runtime.cooperative import Turns
from kerolox.runtime.metrics.counters import OTHER, Labels
from kerolox.runtime.metrics.prometheus import Metric, Sample, Series

_QUEUES_PER_ITERATION = 100
_COUNTS = (m.LAG, m.IN_FLIGHT, m.READY)
_AGES = (m.LAG_MILLIS, m.READY_MILLIS)


class ConsumerLag:
    """Visits each queue of each group that has committed offsets, yielding to the event loop in between."""

    def __init__(self, parts: BrokerParts, pop: Pop) -> None:
        self._reader = parts.store.reader
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._slow_consumers = parts.slow_consumers
        self._clock = parts.clock
        self._pop = pop

    async def gather(self, series: Series) -> list[tuple[Metric, list[Sample]]]:
        """Return the samples of all lag metrics; groups without a series of their own are summed up as `other`."""
        samples: dict[Metric, list[Sample]] = {metric: [] for metric in (*_COUNTS, *_AGES)}
        other_counts, has_others = [0, 0, 0], False
        turns = Turns(_QUEUES_PER_ITERATION)
        now = self._clock.millis()
        for key in list(self._offsets.table):
            topic, _, group = key.partition("@")
            config = self._topics.get(topic)
            if config is None:
                continue
            # Ages cost a read from the log each, so they are computed only for groups with a series of their own.
            is_own = series.is_own((topic, group))
            counts, oldest = [0, 0, 0], [now, now]
            for queue_id in range(config.read_queue_nums):
                self._add_queue(topic, group, queue_id, counts, oldest if is_own else None)
                await turns.step()
            if is_own:
                labels = self._labels(topic, group)
                for metric, count in zip(_COUNTS, counts, strict=True):
                    samples[metric].append((labels, count))
                for metric, store_time in zip(_AGES, oldest, strict=True):
                    samples[metric].append((labels, now - store_time))
            else:
                other_counts, has_others = [sum(pair) for pair in zip(other_counts, counts, strict=True)], True
        if has_others:
            for metric, count in zip(_COUNTS, other_counts, strict=True):
                samples[metric].append(((OTHER, OTHER, "false", "false"), count))
        return list(samples.items())

    def _add_queue(self, topic: str, group: str, queue_id: int, counts: list[int], oldest: list[int] | None) -> None:
        """Add a queue to `counts` (_COUNTS), and to `oldest` the store times of its first lagging and ready message."""
        end = self._reader.max_offset(topic, queue_id)
        committed = delivered = min(max(0, self._pop.offsets.get(group, topic, queue_id) or 0), end)
        if not self._offsets.is_reset(group, topic, queue_id):
            delivered = min(max(delivered, self._slow_consumers.next_offset(topic, group, queue_id) or 0), end)
        popped = self._pop.in_flight.count(topic, group, queue_id)
        for index, count in enumerate((end - committed + popped, delivered - committed + popped, end - delivered)):
            counts[index] += count
        if oldest is not None:
            first = max(0, committed - popped)
            store_time = self._store_time(topic, queue_id, first, end)
            oldest[0] = min(oldest[0], store_time or oldest[0])
            store_time = store_time if delivered == first else self._store_time(topic, queue_id, delivered, end)
            oldest[1] = min(oldest[1], store_time or oldest[1])

    def _store_time(self, topic: str, queue_id: int, queue_offset: int, end: int) -> int:
        """Return the store time of a message in milliseconds; 0 if there is none at this offset."""
        return max(0, self._reader.store_time(topic, queue_id, queue_offset)) if queue_offset < end else 0

    def _labels(self, topic: str, group: str) -> Labels:
        is_system = self._topics.is_system(topic) or is_system_group(group)
        return topic, group, bool_label(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), bool_label(is_system)


def bool_label(value: bool) -> str:
    return "true" if value else "false"
