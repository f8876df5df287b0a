"""All consume queues by topic and queue id (ConsumeQueueStore)."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from kerolox.runtime.files import Disk
from kerolox.store.errors import NotStorable, StoreDamaged
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY_SIZE, Backlog, ConsumeQueue
from kerolox.store.queue.queue_ext import ExtendedQueue, QueueExt
from kerolox.store.queue.queue_types import batch_topics

log = logging.getLogger(__name__)

TOPIC_LENGTH_MAX = 255
# The entries of such a topic's queues point to records of other topics (light message queues, LMQ).
LIGHT_PREFIX = "%LMQ%"

# Part of the name of a deleted queue's directory.
_DELETED_MARK = ".deleted-"
# Topics named in one log line.
_TOPICS_LOGGED_MAX = 10


class Queues:
    """Creates queues on demand, each in its own directory `<topic>/<queue id>`."""

    def __init__(
        self,
        files: OpenFiles,
        directory: Path,
        segment_size: int,
        *,
        ext_directory: Path | None = None,
        ext_segment_size: int = 48 * 1024 * 1024,
    ) -> None:
        assert segment_size % ENTRY_SIZE == 0
        # Directory of the queue-ext units; None if queues have none.
        self._ext_directory = ext_directory
        self._ext_segment_size = ext_segment_size
        self.files = files
        self._directory = directory
        self._segment_size = segment_size
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.backlog = Backlog()
        # Queues with unusable files → reason; they must be rebuilt from the log.
        self.damaged: dict[tuple[str, int], str] = {}

    @property
    def is_extended(self) -> bool:
        """Whether queue entries have queue-ext units."""
        return self._ext_directory is not None

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def load(self) -> None:
        """Open the existing queues and remove leftovers of deleted ones."""
        disk = self.files.disk
        for topic in disk.names(self._directory):
            left = []
            for number in disk.names(self._directory / topic):
                if number.isdigit():
                    self._load(topic, int(number))
                elif _DELETED_MARK in number:
                    left.append(self._directory / topic / number)
            # Leftovers that cannot be removed now do no harm; the next start tries again.
            with contextlib.suppress(OSError):
                self.sweep(left)
        self._sweep_units()

    def _load(self, topic: str, queue_id: int) -> None:
        queue = self._queues[topic, queue_id] = self._new(topic, queue_id)
        try:
            queue.load()
        except StoreDamaged as error:
            self.damaged[topic, queue_id] = str(error)

    def items(self) -> Iterator[tuple[tuple[str, int], ConsumeQueue]]:
        yield from self._queues.items()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, creating it if necessary; NotStorable if the topic cannot be a directory name."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            check_name(topic, queue_id)
            queue = self._queues[topic, queue_id] = self._new(topic, queue_id)
            self.backlog.version += 1
        return queue

    def detach(self, topic: str, queue_id: int, end_offset: int) -> Path | None:
        """Drop a queue and rename its directory so that `load` ignores it; return the new path for `sweep`.

        None if the queue had no directory. OSError, and the queue is kept, if the directory cannot be renamed.
        """
        directory = self._directory / topic / str(queue_id)
        renamed: Path | None = directory.with_name(f"{queue_id}{_DELETED_MARK}{end_offset}")
        assert renamed is not None
        try:
            self.files.disk.rename(directory, renamed)
        except FileNotFoundError:
            renamed = None
        if self._ext_directory is not None:
            units = self._ext_directory / topic
            # Units without a queue are removed at the next start, if not now.
            with contextlib.suppress(OSError):
                self.files.disk.rename(units / directory.name, units / f"{queue_id}{_DELETED_MARK}{end_offset}")
        queue = self._queues.pop((topic, queue_id), None)
        if queue is not None:
            queue.forget()
            self.backlog.forget(queue)
            self.backlog.version += 1
        return renamed

    def sweep(self, directories: Sequence[Path]) -> None:
        """Remove the directories of detached queues, and those of topics without other queues. Blocks."""
        self._remove_all(directories)
        if self._ext_directory is not None:
            units = [self._ext_directory / directory.parent.name / directory.name for directory in directories]
            self._remove_all([directory for directory in units if self._has(directory)])

    def _has(self, directory: Path) -> bool:
        return directory.name in self.files.disk.names(directory.parent)

    def _sweep_units(self) -> None:
        """Remove units whose queue does not exist, left behind by a stop in `sweep` or a manual deletion."""
        disk = self.files.disk
        if self._ext_directory is None:
            return
        for topic in disk.names(self._ext_directory):
            names = disk.names(self._ext_directory / topic)
            left = [name for name in names if not (name.isdigit() and (topic, int(name)) in self._queues)]
            with contextlib.suppress(OSError):
                self._remove_all([self._ext_directory / topic / name for name in left])

    def _remove_all(self, directories: Sequence[Path]) -> None:
        disk = self.files.disk
        topics = sorted({directory.parent for directory in directories})
        for topic in topics:
            # Without this a power cut could undo the rename and bring back part of a queue.
            disk.sync(topic)
        for directory in directories:
            for name in disk.names(directory):
                disk.remove(directory / name)
            disk.remove_directory(directory)
        for topic in topics:
            if not disk.names(topic):
                disk.remove_directory(topic)
            else:
                disk.sync(topic)
        for parent in {topic.parent for topic in topics}:
            disk.sync(parent)

    def flush(self) -> None:
        """Write the pending entries of all queues; OSError if some stay pending."""
        failures = []
        for queue in list(self.backlog.unwritten):
            try:
                queue.flush()
            except OSError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def write_back(self) -> None:
        """Start the writeback of dirty pages, so that syncing many queues afterwards is cheap. May block."""
        with contextlib.suppress(OSError):
            self.files.disk.write_back(self._directory)

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        path = Path(topic, str(queue_id))
        segments = Segments(self.files, self._directory / path, self._segment_size, is_sparse=True)
        if self._ext_directory is None:
            return ConsumeQueue(segments, self.backlog)
        units = Segments(self.files, self._ext_directory / path, self._ext_segment_size, is_sparse=True)
        return ExtendedQueue(segments, QueueExt(units), self.files.disk, self.backlog)


def warn_of_batches(disk: Disk, root: Path) -> None:
    """Log a warning if the store has BatchCQ topics, which cannot be consumed here."""
    topics = batch_topics(disk, root)
    if topics:
        listed = ", ".join(topics[:_TOPICS_LOGGED_MAX]) + (", ..." if len(topics) > _TOPICS_LOGGED_MAX else "")
        log.warning(
            "%d topics have queue.type=BatchCQ, which is not supported and cannot be consumed here: %s; "
            "consume them with the broker that wrote them",
            len(topics),
            listed,
        )


def check_name(topic: str, queue_id: int) -> None:
    """Raise NotStorable if the topic cannot be a directory name, or could address another directory."""
    is_safe = 0 < len(topic.encode()) <= TOPIC_LENGTH_MAX and not set(topic) & {"/", "\\", "\0"}
    if not is_safe or topic in (".", "..") or queue_id < 0:
        raise NotStorable(f"topic {topic!r} and queue id {queue_id} cannot be the name of a queue directory")
