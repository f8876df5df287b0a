"""Recovery of pop offsets after a crash, from checkpoints that the saved consumer offsets do not include.

The table of consumer offsets is saved every few seconds, while each pop has its checkpoint in the commit log before
the response is sent. After a crash the log therefore has pops that the table does not have. If they were ignored,
the group would get these messages again, acknowledged or not, and a broker that crashes more often than it saves
would make no progress.

The table is saved together with the physical offset up to which it includes all checkpoints (`keroloxPopPosition`):
later checkpoints, and no others, are read at the next start. An offset that an operator has set is saved with a
position behind the pops before it, so that these do not undo it.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from time import perf_counter

from kerolox.broker.pop.checkpoints import CHECKPOINT_TAG, Checkpoint, ReviveLog
from kerolox.broker.pop.pop_offsets import PopOffsets, Range
from kerolox.broker.pop.receipt_handle import normal_topic
from kerolox.broker.tables.groups import GroupTable
from kerolox.broker.tables.topics import TopicTable
from kerolox.errors import SystemBusy
from kerolox.message import property_names
from kerolox.message.message import Message
from kerolox.message.properties import find, mark
from kerolox.message.records.record import decode_all
from kerolox.message.tags import java_hash
from kerolox.store.queue.lookup import GetStatus, PullBounds
from kerolox.store.queue.queue_ext import ExtUnit
from kerolox.store.store import Store
from kerolox.store.timer.divert import TIMER_TOPIC

log = logging.getLogger(__name__)

_BOUNDS = PullBounds((1024, 1024 * 1024), (1024, 1024 * 1024), entries_max=4096)
# Messages of a queue that are searched for checkpoints; timed messages of users are in the same queue.
_SEARCHED_MAX = 500_000
_TAGS_CODE = java_hash(CHECKPOINT_TAG)
_REAL_TOPIC = mark(property_names.REAL_TOPIC)
_OUT_MS = mark(property_names.TIMER_OUT_MS)
_DEQUEUE_MS = mark(property_names.TIMER_DEQUEUE_MS)

_Key = tuple[str, str, int]


class PopRecovery:
    """Reads at most `checkpoints_max`, to bound the start-up time; messages of further checkpoints are popped again."""

    def __init__(
        self,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        pop_offsets: PopOffsets,
        revive_log: ReviveLog,
        *,
        checkpoints_max: int = 50_000,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._pop_offsets = pop_offsets
        self._log = revive_log
        self._checkpoints_max = checkpoints_max

    def recover(self, position: int) -> int:
        """Advance groups over the messages of checkpoints after `position`; return how many checkpoints were read."""
        began = perf_counter()
        popped: dict[_Key, list[Range]] = defaultdict(list)
        count = 0
        for checkpoint in islice(self._checkpoints(position), self._checkpoints_max):
            count += 1
            span = self._span(checkpoint)
            if span is not None:
                popped[checkpoint.group, checkpoint.topic, checkpoint.queue_id].append(span)
        for (group, topic, queue_id), ranges in popped.items():
            try:
                self._pop_offsets.recover(
                    group, topic, queue_id, ranges, max(0, self._store.reader.min_offset(topic, queue_id))
                )
            except SystemBusy as error:
                log.warning("messages of %s that group %s has popped are popped again: %s", topic, group, error)
        if count == self._checkpoints_max:
            log.warning("read only the first %d pops since offsets were saved; later ones are popped again", count)
        if count:
            millis = (perf_counter() - began) * 1000
            log.info("recovered %d pops from %d queues since offsets were saved, in %d ms", count, len(popped), millis)
        return count

    def _span(self, checkpoint: Checkpoint) -> Range | None:
        """Return the offsets that a pop covered; None if the queue does not exist or the numbers are inconsistent.

        Messages in between that were not popped did not match the subscription.
        """
        topic, group = checkpoint.topic, checkpoint.group
        queue = self._store.queues.get(topic, checkpoint.queue_id)
        offsets = checkpoint.offsets
        if queue is None or not offsets or checkpoint.broker_name != self._log.broker_name:
            return None
        if self._topics.get(normal_topic(topic, group)) is None or self._groups.get(group) is None:
            return None
        start, end = checkpoint.start_offset, max(offsets) + 1
        return (start, end) if 0 <= start <= min(offsets) and end <= queue.max_offset else None

    def _checkpoints(self, position: int) -> Iterator[Checkpoint]:
        """Yield the checkpoints of the log from a physical offset on, each once.

        Most are in the topic of the timer first, and come to the revive log later. Those with a very short invisible
        time go to the revive log directly.
        """
        queues = [(TIMER_TOPIC, 0)]
        queues += [
            (self._log.topic, queue_id) for queue_id in range(self._topics.find(self._log.topic).read_queue_nums)
        ]
        for topic, queue_id in queues:
            for message in self._messages(topic, queue_id, position):
                record = self._log.decode(message) if self._is_first_stored(message) else None
                if isinstance(record, Checkpoint):
                    yield record

    def _is_first_stored(self, message: Message) -> bool:
        """Whether this is not a copy that the timer has stored of an earlier record."""
        properties = message.properties
        if message.topic == TIMER_TOPIC:
            is_own = find(properties, _REAL_TOPIC) == self._log.topic.encode()
            return is_own and not find(properties, _DEQUEUE_MS)
        return not find(properties, _OUT_MS)

    def _messages(self, topic: str, queue_id: int, position: int) -> Iterator[Message]:
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return
        offset = max(queue.first_after(position), queue.max_offset - _SEARCHED_MAX)
        while offset < queue.max_offset:
            got = self._store.reader.get(
                topic, queue_id, offset, count_max=_BOUNDS.in_memory[0], bounds=_BOUNDS, matches=_may_be_checkpoint
            )
            if got.status is GetStatus.FOUND:
                yield from decode_all(b"".join(got.runs))
            if got.next_offset <= offset:
                return
            offset = got.next_offset


def _may_be_checkpoint(tags_code: int | None, unit: ExtUnit | None) -> bool:
    return tags_code is None or tags_code == _TAGS_CODE
