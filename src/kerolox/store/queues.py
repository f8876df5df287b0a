"""All consume queues, by topic and number."""

from collections.abc import Iterator
from pathlib import Path

from kerolox.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from kerolox.store.errors import NotStorable
from kerolox.store.segments import OpenFiles, Segments

TOPIC_LENGTH_MAX = 255


class Queues:
    """Made on demand, each in a directory of its own: `<topic>/<queue id>`."""

    def __init__(self, files: OpenFiles, directory: Path, segment_size: int) -> None:
        assert segment_size % ENTRY_SIZE == 0
        self._files = files
        self._directory = directory
        self._segment_size = segment_size
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def load(self) -> None:
        """Opens the queues that are there."""
        disk = self._files.disk
        for topic in disk.names(self._directory):
            for number in disk.names(self._directory / topic):
                if number.isdigit():
                    queue = self._queues[topic, int(number)] = self._new(topic, int(number))
                    queue.load()

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

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = self._directory / topic / str(queue_id)
        return ConsumeQueue(Segments(self._files, directory, self._segment_size, is_sparse=True))


def check_name(topic: str, queue_id: int) -> None:
    """NotStorable if a topic cannot be the name of a directory, and of no other than its own."""
    is_safe = 0 < len(topic.encode()) <= TOPIC_LENGTH_MAX and not set(topic) & {"/", "\\", "\0"}
    if not is_safe or topic in (".", "..") or queue_id < 0:
        raise NotStorable(f"no queue can be made for topic {topic!r} and queue {queue_id}")
