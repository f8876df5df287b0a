"""Detects missing or truncated consume queues and index files at startup.

Both can be rebuilt from the commit log, but nothing in them shows that a queue, or the end of one, is missing. So
the file `derived` records what they contained when they were last made durable. RocketMQ does not read this file.
It begins with a CRC-32 in hexadecimal digits, followed by JSON.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec
from zlib_ng import zlib_ng

from kerolox.runtime.files import Disk, write_whole
from kerolox.store.cleanup.deleted_topics import DeletedTopics
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.queue.queues import LIGHT_PREFIX, Queues
from kerolox.store.recovery.checkpoint import Checkpoint

log = logging.getLogger(__name__)

FILE_NAME = "derived"

Key = tuple[str, int]

_CHECKSUM_SIZE = 8


class QueueEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """First and end offset of a queue, and the physical end of the record of its last entry."""

    topic: str
    queue_id: int
    first_offset: int
    max_offset: int
    max_physical_offset: int


class DerivedState(msgspec.Struct, frozen=True, rename="camel"):
    """The content of the file."""

    # The log had been dispatched up to this physical offset.
    dispatched_offset: int
    queues: list[QueueEnd]
    # Index file name → its header in hexadecimal digits.
    index: dict[str, str] = {}


class DerivedFile:
    """Reads and writes the file `derived`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def load(self) -> DerivedState | None:
        """Return the saved state; None if the file is missing or damaged."""
        content = self._disk.read(self._path)
        if content is None:
            return None
        try:
            if content[:_CHECKSUM_SIZE] != _checksum(content[_CHECKSUM_SIZE:]):
                raise ValueError("its checksum does not match")
            return msgspec.json.decode(content[_CHECKSUM_SIZE:], type=DerivedState)
        except ValueError as error:
            log.warning("%s is ignored: %s", self._path, error)
            return None

    def save(self, derived: DerivedState) -> None:
        """Replace the file. May block. A failure is only logged: the next start then checks less."""
        content = msgspec.json.encode(derived)
        try:
            write_whole(self._disk, self._path, _checksum(content) + content)
        except OSError as error:
            log.warning("%s could not be written: %s", self._path, error)


@dataclass(frozen=True, slots=True)
class DerivedData:
    """Everything that can be rebuilt from the commit log, with the dispatcher that builds it."""

    dispatcher: Dispatcher
    queues: Queues
    index: KeyIndex | None
    checkpoint: Checkpoint
    state_file: DerivedFile


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib_ng.crc32(content)


def end_of(key: Key, queue: ConsumeQueue) -> QueueEnd:
    """Return the current end of a queue."""
    return QueueEnd(*key, queue.first_offset, queue.max_offset, queue.max_physical_offset)


def damaged_queues(
    derived: DerivedState, queues: Queues, first_offset: int, deleted: DeletedTopics, *, is_exact: bool
) -> dict[Key, str]:
    """Return the queues that do not match the saved state, each with the reason.

    `first_offset` is the start of the log. Unless `is_exact`, queues may have grown since the state was saved.
    """
    found: dict[Key, str] = {}
    for end in derived.queues:
        if end.max_physical_offset <= max(first_offset, deleted.offsets.get(end.topic, 0)):
            # All its records are deleted from the log, or the topic was.
            continue
        queue = queues.get(end.topic, end.queue_id)
        complaint = _complaint(end, queue, first_offset, is_exact=is_exact)
        if complaint and not end.topic.startswith(LIGHT_PREFIX):
            found[end.topic, end.queue_id] = complaint
        elif complaint:
            log.warning("consume queue %s/%d cannot be rebuilt: %s", end.topic, end.queue_id, complaint)
    return found


def _complaint(end: QueueEnd, queue: ConsumeQueue | None, first_offset: int, *, is_exact: bool) -> str:
    if queue is None:
        return f"it is missing, but had {end.max_offset} entries"
    if queue.max_offset < end.max_offset or (is_exact and queue.max_offset > end.max_offset):
        return f"it ends at {queue.max_offset} instead of {end.max_offset}"
    last_end = queue.max_physical_offset
    if queue.max_offset > end.max_offset:
        last = queue.entry(end.max_offset - 1)
        last_end = 0 if last is None else last.physical_offset + last.size
    if last_end != end.max_physical_offset:
        return f"entry {end.max_offset - 1} points to another record than before"
    if queue.first_offset > end.first_offset:
        first = queue.entry(queue.first_offset)
        if first is None or first.is_filler or first.physical_offset >= first_offset:
            return f"it begins at {queue.first_offset} instead of {end.first_offset}"
    return ""
