"""Epochs of a commit log: which master wrote which part of it (EpochFileCache, EpochEntry).

An entry says that the log from `start_offset` on was written by the master of `epoch`, up to the start of the next
entry. Two logs are equal as far as their entries are: a replica compares its list with its master's, newest entry
first, and cuts its own log at the end of the last part that both have.

Three rules differ from RocketMQ, each because its own has lost or divided data:

- An epoch is always recorded, even if the one before it wrote nothing: its entry replaces one with the same start.
  RocketMQ drops the second entry, and two masters could then write different bytes under the same one.
- The file is durable before the first record of an epoch is written. RocketMQ does not sync it.
- At start, entries that begin after the end of the log are dropped. RocketMQ keeps them, and a replica that lost the
  end of its log in a power cut then reports bytes that it does not have.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from zlib_ng import zlib_ng

from kerolox.runtime.files import BACKUP_SUFFIX, Disk, replace_whole
from kerolox.store.errors import StoreDamaged

log = logging.getLogger(__name__)

FILE_NAME = "epochFileCheckpoint"
# A master sends at most this many entries; 1,000 elections that all wrote something are beyond any retention.
ENTRIES_MAX = 1_000

_start_offset = attrgetter("start_offset")


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class Epochs:
    """The epoch entries of a log, ascending in both fields. Immutable: changes return a new object."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries = tuple(entries)
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            if not (before.epoch < after.epoch and before.start_offset < after.start_offset):
                raise ValueError(f"epoch {after.epoch} from {after.start_offset} does not follow {before}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epochs) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"Epochs({', '.join(f'{epoch} from {start}' for epoch, start in self.entries)})"

    @property
    def last_epoch(self) -> int:
        """The newest epoch; -1 if there is none, as RocketMQ has it on the wire."""
        return self.entries[-1].epoch if self.entries else -1

    def with_entry(self, epoch: int, start_offset: int) -> "Epochs":
        """Add the entry of a new epoch, in place of one that wrote nothing; ValueError if it is not newer.

        Adding the last entry again changes nothing.
        """
        if self.entries and self.entries[-1] == (epoch, start_offset):
            return self
        if epoch <= self.last_epoch:
            raise ValueError(f"epoch {epoch} is not newer than epoch {self.last_epoch}")
        kept = [entry for entry in self.entries if entry.start_offset != start_offset]
        return Epochs([*kept, EpochEntry(epoch, start_offset)])

    def until(self, end_offset: int) -> "Epochs":
        """Drop the entries that begin after the end of the log."""
        return Epochs(entry for entry in self.entries if entry.start_offset <= end_offset)

    def since(self, first_offset: int) -> "Epochs":
        """Drop the entries whose part of the log was deleted, because it begins at `first_offset` now."""
        return Epochs(self.entries[max(0, self._index_of(first_offset)) :])

    def at(self, offset: int) -> EpochEntry | None:
        """Return the entry of the byte at `offset`; None if the list begins after it."""
        index = self._index_of(offset)
        return self.entries[index] if index >= 0 else None

    def end_of(self, entry: EpochEntry, end_offset: int) -> int:
        """Return where the part of an entry ends in a log that ends at `end_offset`."""
        following = self.entries[self.entries.index(entry) + 1 :]
        return following[0].start_offset if following else end_offset

    def _index_of(self, offset: int) -> int:
        return bisect_right(self.entries, offset, key=_start_offset) - 1

    def encode(self) -> bytes:
        """Return the content of the file: number of entries, checksum, and a line for each."""
        lines = b"".join(b"%d-%d\n" % entry for entry in self.entries)
        return b"%d\n%d\n" % (len(self.entries), _checksum(lines)) + lines


class Agreement(NamedTuple):
    """How far the log of a replica equals its master's, and the entries that describe this part of it."""

    offset: int
    epochs: Epochs


def agreement(own: Epochs, own_end: int, master: Epochs, master_end: int) -> Agreement | None:
    """Compare the log of a replica with its master's; None if they have no epoch in common.

    An empty log agrees with every master, at 0. A log without entries was written without epochs: nothing tells whose
    it is, so it agrees with none.
    """
    if not own.entries:
        return None if own_end else Agreement(0, own)
    theirs = set(master.entries)
    for index in range(len(own.entries) - 1, -1, -1):
        entry = own.entries[index]
        if entry in theirs:
            end = min(own.end_of(entry, own_end), master.end_of(entry, master_end))
            return Agreement(end, Epochs(own.entries[: index + 1]))
    return None


class EpochFile:
    """The file of the epochs of a store."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def load(self) -> Epochs:
        """Return the entries of the file, or of its backup if it is damaged; StoreDamaged if both are.

        Without either file there are no entries.
        """
        failure: ValueError | None = None
        for path in (self._path, self._path.with_name(self._path.name + BACKUP_SUFFIX)):
            content = self._disk.read(path)
            if not content:
                continue
            try:
                epochs = _decode(content)
            except ValueError as error:
                log.warning("%s cannot be read: %s", path, error)
                failure = failure or error
            else:
                return epochs
        if failure is not None:
            raise StoreDamaged(f"{self._path} and its backup cannot be read: {failure}") from failure
        return Epochs()

    def save(self, epochs: Epochs) -> None:
        """Replace the file durably. Blocks; OSError if it cannot be written."""
        replace_whole(self._disk, self._path, epochs.encode())


def _decode(content: bytes) -> Epochs:
    """Decode a file; ValueError, with the reason, if it is damaged."""
    lines = content.decode("ascii").splitlines()
    if len(lines) < 2 or not lines[0].isdigit() or not lines[1].isdigit():
        raise ValueError("it does not begin with a count and a checksum")
    count, checksum = int(lines[0]), int(lines[1])
    entries = [_entry(line) for line in lines[2:]]
    if len(entries) != count:
        raise ValueError(f"it has {len(entries)} entries instead of {count}")
    # Written on Windows, the lines end with a carriage return, which is part of the checksum.
    body = content.split(b"\n", 2)[2]
    # Java writes 0 where it has no checksum.
    if checksum and checksum != _checksum(body):
        raise ValueError("its checksum does not match")
    return epochs_of(entries)


def _entry(line: str) -> EpochEntry:
    epoch, _, start_offset = line.partition("-")
    if not epoch.isdigit() or not start_offset.isdigit():
        raise ValueError(f"{line[:60]!r} is not an entry")
    return EpochEntry(int(epoch), int(start_offset))


def epochs_of(entries: Iterable[EpochEntry]) -> Epochs:
    """Return entries of RocketMQ without those that wrote nothing; ValueError if they are not ascending."""
    newest = {entry.start_offset: entry for entry in entries}
    return Epochs(newest.values())


def _checksum(lines: bytes) -> int:
    return int(zlib_ng.crc32(lines)) & 0x7FFFFFFF
