"""How far groups are behind: what they have not consumed, what of it they were given, and how old it is."""

from kerolox.broker import metric_names as m
from kerolox.broker.falling import FallBehind
from kerolox.broker.groups import is_system_group
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.parts import Pop
from kerolox.broker.system_topics import DLQ_PREFIX, RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.runtime.clock import Clock
from kerolox.runtime.exposition import Metric, Sample, Series
from kerolox.runtime.tallies import OTHER, Labels
from kerolox.runtime.turns import Turns
from kerolox.store.reader import Reader

_QUEUES_AT_ONCE = 100
_COUNTED = (m.LAG, m.INFLIGHT, m.READY)
_AGED = (m.LAG_MILLIS, m.QUEUEING_MILLIS)


class Lags:
    """Looks at each queue of each group that has ever committed, some to a turn of the loop."""

    def __init__(
        self,
        reader: Reader,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        behind: FallBehind,
        pop: Pop,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._topics = topics
        self._offsets = offsets
        self._behind = behind
        self._pop = pop
        self._clock = clock

    async def gather(self, series: Series) -> list[tuple[Metric, list[Sample]]]:
        found: dict[Metric, list[Sample]] = {metric: [] for metric in (*_COUNTED, *_AGED)}
        rest, has_others = [0, 0, 0], False
        turns = Turns(_QUEUES_AT_ONCE)
        now = self._clock.millis()
        for key in list(self._offsets.table):
            topic, _, group = key.partition("@")
            config = self._topics.get(topic)
            if config is None:
                continue
            # A message is read for its age, which is not done for those that are not told one by one.
            is_own = series.is_own((topic, group))
            counts, since = [0, 0, 0], [now, now]
            for queue_id in range(config.read_queue_nums):
                self._look(topic, group, queue_id, counts, since if is_own else None)
                await turns.step()
            if is_own:
                labels = self._labels(topic, group)
                for metric, count in zip(_COUNTED, counts, strict=True):
                    found[metric].append((labels, count))
                for metric, stored in zip(_AGED, since, strict=True):
                    found[metric].append((labels, now - stored))
            else:
                rest, has_others = [sum(pair) for pair in zip(rest, counts, strict=True)], True
        if has_others:
            for metric, count in zip(_COUNTED, rest, strict=True):
                found[metric].append(((OTHER, OTHER, "false", "false"), count))
        return list(found.items())

    def _look(self, topic: str, group: str, queue_id: int, counts: list[int], since: list[int] | None) -> None:
        """Adds what is not consumed, given and not consumed, and not given; notes when the first of both was stored."""
        end = self._reader.max_offset(topic, queue_id)
        committed = given = min(max(0, self._pop.progress.get(group, topic, queue_id) or 0), end)
        if not self._offsets.is_reset(group, topic, queue_id):
            given = min(max(given, self._behind.next_offset(topic, group, queue_id) or 0), end)
        # Offsets are committed where popping ends, so that what is not acknowledged lies before them.
        popped = self._pop.inflight.count(topic, group, queue_id)
        for at, count in enumerate((end - committed + popped, given - committed + popped, end - given)):
            counts[at] += count
        if since is not None:
            first = max(0, committed - popped)
            stored = self._stored(topic, queue_id, first, end)
            since[0] = min(since[0], stored or since[0])
            stored = stored if given == first else self._stored(topic, queue_id, given, end)
            since[1] = min(since[1], stored or since[1])

    def _stored(self, topic: str, queue_id: int, queue_offset: int, end: int) -> int:
        """Returns when a message was stored; 0 if there is none."""
        return max(0, self._reader.store_time(topic, queue_id, queue_offset)) if queue_offset < end else 0

    def _labels(self, topic: str, group: str) -> Labels:
        is_system = self._topics.is_system(topic) or is_system_group(group)
        return topic, group, yes(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), yes(is_system)


def yes(fact: bool) -> str:
    return "true" if fact else "false"
