"""All consume queues, by topic and number."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from kerolox.runtime.files import Disk
from kerolox.store.errors import NotStorable
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY_SIZE, Backlog, ConsumeQueue
from kerolox.store.queue.queue_ext import ExtendedQueue, QueueExt

log = logging.getLogger(__name__)

TOPIC_LENGTH_MAX = 255

# What is in the name of a directory that was a queue's.
_DELETED_MARK = ".deleted-"
_BATCH_DIRECTORY = "batchconsumequeue"
# So many topics are named in one line.
_NAMES_SHOWN = 10


class Queues:
    """Made on demand, each in a directory of its own: `<topic>/<queue id>`."""

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
        # Where the queues' units lie, if they have any.
        self._ext_directory = ext_directory
        self._ext_segment_size = ext_segment_size
        self.files = files
        self._directory = directory
        self._segment_size = segment_size
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.backlog = Backlog()

    @property
    def is_extended(self) -> bool:
        """Whether queues have units besides their entries."""
        return self._ext_directory is not None

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def load(self) -> None:
        """Opens the queues that are there, and removes what is left of those that are not."""
        disk = self.files.disk
        for topic in disk.names(self._directory):
            left = []
            for number in disk.names(self._directory / topic):
                if number.isdigit():
                    queue = self._queues[topic, int(number)] = self._new(topic, int(number))
                    queue.load()
                elif _DELETED_MARK in number:
                    left.append(self._directory / topic / number)
            # What cannot be removed now is nobody's, and can stay.
            with contextlib.suppress(OSError):
                self.sweep(left)
        self._sweep_units()

    def items(self) -> Iterator[tuple[tuple[str, int], ConsumeQueue]]:
        yield from self._queues.items()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Returns the queue, making it if there is none; NotStorable if its name could not be a directory's."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            check_name(topic, queue_id)
            queue = self._queues[topic, queue_id] = self._new(topic, queue_id)
        return queue

    def detach(self, topic: str, queue_id: int, end_offset: int) -> Path | None:
        """Forgets a queue; its directory gets a name that no start takes for a queue's, and which is returned.

        None if it had no directory. OSError, and the queue is still there, if it cannot be renamed.
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
            # Without a queue they are nobody's, and go with the next start if not now.
            with contextlib.suppress(OSError):
                self.files.disk.rename(units / directory.name, units / f"{queue_id}{_DELETED_MARK}{end_offset}")
        queue = self._queues.pop((topic, queue_id), None)
        if queue is not None:
            queue.forget()
            self.backlog.forget(queue)
        return renamed

    def sweep(self, directories: Sequence[Path]) -> None:
        """Removes the directories of queues that were detached, and those of topics with no other. May block."""
        self._remove_all(directories)
        if self._ext_directory is not None:
            units = [self._ext_directory / directory.parent.name / directory.name for directory in directories]
            self._remove_all([directory for directory in units if self._has(directory)])

    def _has(self, directory: Path) -> bool:
        return directory.name in self.files.disk.names(directory.parent)

    def _sweep_units(self) -> None:
        """Removes units of queues that are not there: a stop came before they could go, or the queues were removed."""
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
            # Else a power cut could bring a part of a queue back.
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
        """Writes what is pending in all queues; OSError if some of it stays pending."""
        failures = []
        for queue in list(self.backlog.unwritten):
            try:
                queue.flush()
            except OSError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def write_back(self) -> None:
        """Has the disk write what it has in memory, so that syncing many queues afterwards costs little. May block."""
        with contextlib.suppress(OSError):
            self.files.disk.write_back(self._directory)

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        place = topic, str(queue_id)
        segments = Segments(self.files, self._directory.joinpath(*place), self._segment_size, is_sparse=True)
        if self._ext_directory is None:
            return ConsumeQueue(segments, self.backlog)
        units = Segments(self.files, self._ext_directory.joinpath(*place), self._ext_segment_size, is_sparse=True)
        return ExtendedQueue(segments, QueueExt(units), self.files.disk, self.backlog)


def batch_topics(disk: Disk, root: Path) -> list[str]:
    """Returns the topics whose queues are of another kind: their records are batches, and nothing here reads them.

    Java 5.x has them for topics with `queue.type=BatchCQ`, and in a directory of their own.
    """
    return sorted(disk.names(root / _BATCH_DIRECTORY))


def warn_of_batches(disk: Disk, root: Path) -> None:
    """Says, when a store is opened, that it has topics whose messages cannot be had."""
    topics = batch_topics(disk, root)
    if topics:
        shown = ", ".join(topics[:_NAMES_SHOWN]) + (", ..." if len(topics) > _NAMES_SHOWN else "")
        log.warning(
            "%d topics have batches in one record (queue.type=BatchCQ), which nobody can consume here: %s; "
            "consume them where they were written",
            *(len(topics), shown),
        )


def check_name(topic: str, queue_id: int) -> None:
    """NotStorable if a topic cannot be the name of a directory, and of no other than its own."""
    is_safe = 0 < len(topic.encode()) <= TOPIC_LENGTH_MAX and not set(topic) & {"/", "\\", "\0"}
    if not is_safe or topic in (".", "..") or queue_id < 0:
        raise NotStorable(f"no queue can be made for topic {topic!r} and queue {queue_id}")
