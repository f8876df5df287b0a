"""Deletes consume queues: of deleted topics, of unused topics, and queues whose messages have all expired."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kerolox.runtime.threads import in_thread
from kerolox.store.cleanup.deleted_topics import DeletedTopics
from kerolox.store.flush_behind import FlushBehind
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.message_waiters import MessageWaiters
from kerolox.store.queue.queues import LIGHT_PREFIX

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
# Deleting holds the lock of `FlushBehind`, and renaming blocks the event loop: so it is done a few at a time.
_TOPICS_AT_ONCE_MAX = 16
_QUEUES_AT_ONCE_MAX = 200
_AT_THE_END: Mapping[str, int] = {}


class TopicCleanup:
    """A queue is deleted by renaming its directory, which is atomic; the files are removed after that.

    Its records stay in the log, and can be found by key, until their files expire.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        flush_behind: FlushBehind,
        message_waiters: MessageWaiters,
        deleted_topics: DeletedTopics,
        *,
        queue_offsets: dict[tuple[str, int], int],
        clear_stray: Callable[[], None],
    ) -> None:
        self._log = commit_log
        self._queues = flush_behind.queues
        self._flush_behind = flush_behind
        self._message_waiters = message_waiters
        self._deleted_topics = deleted_topics
        self._queue_offsets = queue_offsets
        # Called first, so that bytes of refused appends cannot reappear after a crash with offsets of the old queue.
        self._clear_stray = clear_stray

    def load(self) -> None:
        """Complete deletions that a stop interrupted. May block."""
        for (topic, queue_id), queue in list(self._queues.items()):
            # A queue that was recreated has entries of later records.
            if queue.max_physical_offset <= self._deleted_topics.offsets.get(topic, -1):
                self._sweep([self._queues.detach(topic, queue_id, self._deleted_topics.offsets[topic])])

    @property
    def deletions(self) -> Mapping[str, int]:
        """Deleted topics of which the log still has records → end of the log when they were deleted."""
        return self._deleted_topics.offsets

    async def repeat(self, deletions: Mapping[str, int]) -> int:
        """Delete topics as another broker with the same log has deleted them; return how many had queues.

        Records before the end of the log at that time belong to the deleted topic; those after it to a new one of the
        same name. A queue that has entries of such later records stays, with a warning.
        """
        ends: dict[str, int] = {}
        for topic, end in deletions.items():
            if self._deleted_topics.offsets.get(topic, 0) >= end:
                continue
            queues = [queue for (of_topic, _), queue in self._queues.items() if of_topic == topic]
            if any(queue.max_physical_offset > end for queue in queues):
                log.warning(
                    "topic %s was deleted on the master and created again, but its old queues are in use", topic
                )
            else:
                ends[topic] = end
        async with self._flush_behind.lock:
            return await self._delete(set(ends), ends) if ends else 0

    async def delete(self, topics: Collection[str]) -> int:
        """Delete all queues of these topics; return how many topics had any. Their offsets restart at 0.

        OSError if a power cut might bring them back; the call may be repeated.
        """
        count = 0
        wanted = sorted(set(topics))
        for first in range(0, len(wanted), _TOPICS_AT_ONCE_MAX):
            async with self._flush_behind.lock:
                count += await self._delete(set(wanted[first : first + _TOPICS_AT_ONCE_MAX]))
        return count

    async def clean_unused(self, known: Collection[str]) -> int:
        """Delete the topics that are neither in `known` nor system topics; return how many."""
        topics = {topic for topic, _ in self._queue_offsets} | {topic for (topic, _), _ in self._queues.items()}
        unused = [topic for topic in topics - set(known) if not _is_kept(topic)]
        return await self.delete(unused)

    async def clean_expired(self) -> int:
        """Delete the queues whose messages are all gone from the log; return how many.

        Their offsets restart at 0, although the topic still exists.
        """
        count = 0
        first = self._log.first_offset
        keys = [key for key, queue in self._queues.items() if queue.has_expired(first) and not _is_system(key[0])]
        for start in range(0, len(keys), _QUEUES_AT_ONCE_MAX):
            async with self._flush_behind.lock:
                self._clear_stray()
                # Skip queues with messages that are appended but not dispatched: those have their offsets already.
                expired = [
                    key
                    for key in keys[start : start + _QUEUES_AT_ONCE_MAX]
                    if (queue := self._queues.get(*key)) is not None
                    if queue.has_expired(first) and self._queue_offsets.get(key) == queue.max_offset
                ]
                end = self._log.end_offset
                await in_thread(self._sweep, [self._detach(key, end) for key in expired])
                count += len(expired)
        return count

    async def _delete(self, topics: set[str], ends: Mapping[str, int] = _AT_THE_END) -> int:
        """Delete topics, with their records before `ends`; by default up to the end of the log."""
        keys: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for key in self._queue_offsets.keys() | dict(self._queues.items()).keys():
            if key[0] in topics:
                keys[key[0]].append(key)
        renamed = []
        self._clear_stray()
        for topic in ends:
            # Even without a queue here: the records may still be on their way.
            keys.setdefault(topic, [])
        for topic, of_topic in keys.items():
            end = ends.get(topic, self._log.end_offset)
            # No await until all queues are detached: records that are not dispatched yet must not reach a queue.
            self._deleted_topics.note(topic, end)
            renamed += [self._detach(key, end) for key in of_topic]
            log.info("deleted topic %s with %d queues", topic, len(of_topic))
        try:
            if not self._deleted_topics.is_saved:
                await in_thread(self._deleted_topics.save, self._deleted_topics.content())
                self._deleted_topics.is_saved = True
        finally:
            await in_thread(self._sweep, renamed)
        return len(keys)

    def _detach(self, key: tuple[str, int], end_offset: int) -> Path | None:
        renamed = self._queues.detach(*key, end_offset)
        self._queue_offsets.pop(key, None)
        self._message_waiters.notify(*key)
        return renamed

    def _sweep(self, renamed: list[Path | None]) -> None:
        self._queues.sweep([path for path in renamed if path is not None])


def _is_system(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIX)


def _is_kept(topic: str) -> bool:
    return _is_system(topic) or topic.startswith(LIGHT_PREFIX)
