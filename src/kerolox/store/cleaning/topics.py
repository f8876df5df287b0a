"""Deletes queues: those of a topic, those of topics nobody knows, and those that nothing is left of."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path

from kerolox.runtime.blocking import in_thread
from kerolox.store.arrivals import Arrivals
from kerolox.store.behind import Behind
from kerolox.store.cleaning.deleted_topics import DeletedTopics
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.queue.queues import Queues

log = logging.getLogger(__name__)

SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
_SYSTEM_PREFIX = "rmq_sys_"
_LIGHT_PREFIX = "%LMQ%"
# While queues are deleted none is written, and while they are renamed all else waits: so it is done a few at a time.
_TOPICS_AT_ONCE_MAX = 16
_QUEUES_AT_ONCE_MAX = 200


class Topics:
    """A queue goes by getting another name, which is one step; what it held is removed after that.

    Its records stay in the log until their files expire, and can be found by key until then.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: Queues,
        behind: Behind,
        arrivals: Arrivals,
        deleted: DeletedTopics,
        queue_offsets: dict[tuple[str, int], int],
        clear_stray: Callable[[], None],
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._behind = behind
        self._arrivals = arrivals
        self._deleted = deleted
        self._queue_offsets = queue_offsets
        # What was refused before a queue went must not come back after a crash, with an offset of the old queue.
        self._clear_stray = clear_stray

    def load(self) -> None:
        """Ends what a stop has interrupted. May block."""
        for (topic, queue_id), queue in list(self._queues.items()):
            # A queue that begins anew has entries of later records.
            if queue.max_physical_offset <= self._deleted.offsets.get(topic, -1):
                self._sweep([self._queues.detach(topic, queue_id, self._deleted.offsets[topic])])

    async def delete(self, topics: Collection[str]) -> int:
        """Deletes all queues of these topics, and returns how many topics had any. Their offsets begin at 0 again.

        OSError if it is not known whether a power cut would bring them back; it may be asked for again.
        """
        count = 0
        wanted = sorted(set(topics))
        for first in range(0, len(wanted), _TOPICS_AT_ONCE_MAX):
            async with self._behind.lock:
                count += await self._delete(set(wanted[first : first + _TOPICS_AT_ONCE_MAX]))
        return count

    async def clean_unused(self, known: Collection[str]) -> int:
        """Deletes the topics that are not among the known ones, nor the system's own; returns how many."""
        topics = {topic for topic, _ in self._queue_offsets} | {topic for (topic, _), _ in self._queues.items()}
        unused = [topic for topic in topics - set(known) if not _is_kept(topic)]
        return await self.delete(unused)

    async def clean_expired(self) -> int:
        """Deletes the queues that had messages of which the log has none any more; returns how many.

        Their offsets begin at 0 again, though their topic is still there.
        """
        count = 0
        first = self._log.first_offset
        keys = [key for key, queue in self._queues.items() if queue.has_expired(first) and not _is_system(key[0])]
        for start in range(0, len(keys), _QUEUES_AT_ONCE_MAX):
            async with self._behind.lock:
                self._clear_stray()
                # No message may be on its way to the queue, for it has its offset already.
                expired = [
                    key
                    for key in keys[start : start + _QUEUES_AT_ONCE_MAX]
                    if (queue := self._queues.get(*key)) is not None
                    if queue.has_expired(first) and self._queue_offsets.get(key) == queue.max_offset
                ]
                end = self._log.end_offset
                await in_thread(self._sweep, [self._forget(key, end) for key in expired])
                count += len(expired)
        return count

    async def _delete(self, topics: set[str]) -> int:
        keys: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for key in self._queue_offsets.keys() | dict(self._queues.items()).keys():
            if key[0] in topics:
                keys[key[0]].append(key)
        renamed = []
        self._clear_stray()
        end = self._log.end_offset
        for topic, of_topic in keys.items():
            # What is in the log, and not yet in a queue, will not be: so nothing may be awaited until all is forgotten.
            self._deleted.note(topic, end)
            renamed += [self._forget(key, end) for key in of_topic]
            log.info("deleted topic %s with %d queues", topic, len(of_topic))
        try:
            if not self._deleted.is_saved:
                await in_thread(self._deleted.save, self._deleted.content())
                self._deleted.is_saved = True
        finally:
            await in_thread(self._sweep, renamed)
        return len(keys)

    def _forget(self, key: tuple[str, int], end_offset: int) -> Path | None:
        renamed = self._queues.detach(*key, end_offset)
        self._queue_offsets.pop(key, None)
        self._arrivals.notify(*key)
        return renamed

    def _sweep(self, renamed: list[Path | None]) -> None:
        self._queues.sweep([path for path in renamed if path is not None])


def _is_system(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIX)


def _is_kept(topic: str) -> bool:
    return _is_system(topic) or topic.startswith(_LIGHT_PREFIX)
