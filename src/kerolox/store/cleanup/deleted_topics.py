"""Remembers deleted topics while the log still has records of them."""

from pathlib import Path

from kerolox.runtime.files import Disk
from kerolox.store.tables import JsonTable

DELETED_TOPICS = "deletedTopics.json"


class DeletedTopics:
    """Topic → end of the log when it was deleted: older records of that topic are not dispatched to a queue.

    Without it the next start would read the end of the log and bring them back, as Java does.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._table: JsonTable[dict[str, int]] = JsonTable(disk, path, dict[str, int])
        self.offsets: dict[str, int] = {}
        # Whether the file has the same content.
        self.is_saved = True

    def load(self) -> None:
        self.offsets.clear()
        self.offsets.update(self._table.load() or {})

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Whether a record at this offset was deleted with its topic."""
        return physical_offset < self.offsets.get(topic, 0)

    def note(self, topic: str, end_offset: int) -> None:
        self.offsets[topic] = end_offset
        self.is_saved = False

    def prune(self, first_offset: int) -> None:
        """Remove the topics of which the log, which now begins at `first_offset`, has no records any more."""
        gone = [topic for topic, offset in self.offsets.items() if offset <= first_offset]
        for topic in gone:
            del self.offsets[topic]
        self.is_saved = self.is_saved and not gone

    def content(self) -> bytes:
        """Return the content of the file, to be saved in a thread."""
        return self._table.encode(self.offsets)

    def save(self, content: bytes) -> None:
        """Replace the file. May block; calls must not overlap. On OSError the file has its old content."""
        self._table.save(content)
        # JsonTable skips unchanged content; an earlier write may have failed to sync it.
        self._disk.sync(self._path.parent)
