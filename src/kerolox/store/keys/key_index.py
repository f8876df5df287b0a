"""The key index: where in the log the messages with a certain key lie."""

import asyncio
import functools
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from kerolox.message import sysflag
from kerolox.message.columns import Columns
from kerolox.message.tags import key_hash, key_hashes
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.keys.index_file import FileFlush, IndexFile, WrongShape
from kerolox.store.keys.index_layout import ENTRY, HEADER, IndexHeader, IndexShape
from kerolox.store.keys.key_columns import even, uneven

log = logging.getLogger(__name__)

_NAME_DIGITS = 17
_TAG_MARK = b"T#"
_CACHED_SIZE_MAX = 64
# So few keys are hashed one by one.
_FEW = 16


def tag_key(tag: bytes) -> bytes:
    """Returns the key under which the messages with a tag are entered since 5.5: `topic#T#tag`."""
    return _TAG_MARK + tag


def index_keys(unique_key: bytes, keys: bytes, tag: bytes) -> list[bytes]:
    """Returns what a record is found by; `keys` are parted by spaces."""
    found = [unique_key] if unique_key else []
    if keys:
        found += [key for key in keys.split(b" ") if key]
    if tag:
        # As 5.5 does it, after the keys; 4.x does not ask for it.
        found.append(tag_key(tag))
    return found


class Keyed:
    """What records are found by that lie one after the other in the log: in each list one for each key."""

    __slots__ = ("offsets", "texts", "timestamps", "topics")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.texts: list[bytes] = []
        self.offsets: list[int] = []
        self.timestamps: list[int] = []

    def add(self, topic: str, keys: Sequence[bytes], physical_offset: int, store_timestamp: int) -> None:
        count = len(keys)
        self.texts += keys
        self.topics += [topic] * count
        self.offsets += [physical_offset] * count
        self.timestamps += [store_timestamp] * count


class KeyIndex:
    """Files of one shape, each named after the time at which it was made; the newest of them grows.

    What is put is in memory at first: about `pending_max` entries, and all slots of the newest file.
    """

    def __init__(
        self, disk: Disk, directory: Path, clock: Clock, *, shape: IndexShape | None = None, pending_max: int = 16384
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._clock = clock
        self._shape = shape or IndexShape()
        self._pending_size_max = pending_max * ENTRY.size
        self._files: list[IndexFile] = []
        # Why it can no longer be known what is durable; no flush succeeds then.
        self.failure: SyncFailed | None = None

    def load(self, checkpoint_timestamp: int | None = None) -> list[str]:
        """Opens the files that are there, and returns what was wrong with those it dropped.

        After an unclean stop `checkpoint_timestamp` says up to when the index was known to be durable. Java then
        drops what is newer. Here it is read through, and so is the last file, whose slots may be ahead of its header.

        From the first file that cannot be trusted on, all are dropped: the log has to be dispatched again from
        `end_physical_offset`. But WrongShape is raised if a file has another size, for then none would be left.
        """
        damage = self._open_all()
        if checkpoint_timestamp is not None:
            damage = self._restore(checkpoint_timestamp) or damage
            try:
                # What was made anew; whoever reads the files next may not know how.
                self.flush().run()
            except (OSError, SyncFailed) as error:
                log.error("key index: what was restored could not be written yet: %s", error)
        if self._files:
            self._files[-1].grow()
        for reason in damage:
            log.error("key index: %s; it is made again from the log", reason)
        return damage

    @property
    def paths(self) -> list[Path]:
        return [file.path for file in self._files]

    @property
    def end_physical_offset(self) -> int:
        """Records before this offset are in the index; the one at it may be, or a part of its keys."""
        return self._files[-1].header.end_physical_offset if self._files else 0

    @property
    def sealed_offset(self) -> int:
        """How far the index goes, as a seal has it: 0 if it has no file at all."""
        return self.end_physical_offset + 1 if self._files else 0

    @property
    def end_timestamp(self) -> int:
        """The store time of the last record that is in the index; 0 if there is none."""
        return self._files[-1].header.end_timestamp if self._files else 0

    def put(self, topic: str, keys: Sequence[bytes], physical_offset: int, store_timestamp: int) -> None:
        """Enters all keys of a record, unless it was entered before.

        On OSError some of them may have been entered; putting the record again enters the others.
        """
        if not keys:
            return
        hashes = [_hash(topic, key) for key in keys]
        if self._files:
            file = self._files[-1]
            end_offset = file.header.end_physical_offset
            if physical_offset <= end_offset:
                if physical_offset < end_offset:
                    return
                hashes = [hashed for hashed in hashes if not self._has(hashed, physical_offset)]
            if len(file.pending) >= self._pending_size_max:
                file.write_entries()
        else:
            file = self._roll()
        count = file.put(hashes, physical_offset, store_timestamp)
        while count < len(hashes):
            file = self._roll()
            count += file.put(hashes[count:], physical_offset, store_timestamp)

    def put_all(self, keyed: Keyed) -> None:
        """The same of many records."""
        end_offset = self.end_physical_offset if self._files else -1
        offsets = keyed.offsets
        first = bisect_right(offsets, end_offset)
        if first:
            # The last that was entered may not have been entered with all its keys.
            for at in range(bisect_left(offsets, end_offset), first):
                self.put(keyed.topics[at], keyed.texts[at : at + 1], end_offset, keyed.timestamps[at])
            keyed.topics, keyed.texts = keyed.topics[first:], keyed.texts[first:]
            offsets, keyed.timestamps = offsets[first:], keyed.timestamps[first:]
        self._enter(_hashes(keyed.topics, keyed.texts), offsets, keyed.timestamps)

    def put_columns(self, run: Columns) -> None:
        """Enters all that records are found by which lie one after the other in the log."""
        flags, offsets, timestamps = run.sys_flags, run.physical_offsets, run.store_timestamps
        if sysflag.ROLLBACK in {flag & sysflag.TRANSACTION_MASK for flag in set(flags)} or (
            self._files and offsets[0] <= self.end_physical_offset
        ):
            self._put_others(run)
            return
        tag_hashes = _tag_hashes(run.topics, run.tags)
        found = even(run, tag_hashes)
        if found is None:
            self._enter(*uneven(run, tag_hashes))
            return
        # Each record has as many keys as the others; they follow each other record by record.
        step = len(found)
        flat = [[0] * (step * len(run)) for _ in range(3)]
        for at, hashes in enumerate(found):
            for column, values in zip(flat, (hashes, offsets, timestamps), strict=True):
                column[at::step] = values
        self._enter(*flat)

    def _put_others(self, run: Columns) -> None:
        """Enters those of the records that were not rolled back, nor entered before."""
        keyed = Keyed()
        for record in run.peeks():
            if record.sys_flag & sysflag.TRANSACTION_MASK != sysflag.ROLLBACK:
                keys = index_keys(record.unique_key, record.keys, record.tag)
                keyed.add(record.topic, keys, record.physical_offset, record.store_timestamp)
        self.put_all(keyed)

    def _enter(self, hashes: Sequence[int], offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        while hashes:
            file = self._files[-1] if self._files else self._roll()
            if file.is_full:
                file = self._roll()
            if len(file.pending) >= self._pending_size_max:
                file.write_entries()
            count = file.put_all(hashes, offsets, timestamps)
            if count == len(hashes):
                return
            hashes, offsets, timestamps = hashes[count:], offsets[count:], timestamps[count:]

    def query(
        self, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = 2**63 - 1
    ) -> list[int]:
        """Returns where the newest records with this key lie, at most so many and the newest first.

        Only hashes are compared, so that records with other keys may be among them; and times only by the second.
        """
        walk = self.walk(topic, key, count_max, begin_timestamp, end_timestamp)
        return [offset for offset in walk if offset is not None]

    async def search(
        self, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = 2**63 - 1
    ) -> list[int]:
        """Returns the same, and lets others have their turn while it looks for it."""
        found: list[int] = []
        for offset in self.walk(topic, key, count_max, begin_timestamp, end_timestamp):
            if offset is None:
                await asyncio.sleep(0)
            else:
                found.append(offset)
        return found

    def walk(
        self, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = 2**63 - 1
    ) -> Iterator[int | None]:
        """Yields the same one by one, and None where others should have their turn; files may be deleted then."""
        hashed = key_hash(topic, key)
        left = count_max
        for file in self._files[::-1]:
            if left <= 0:
                return
            header = file.header
            if _may_hold(header, begin_timestamp, end_timestamp):
                for offset in file.walk(hashed, begin_timestamp, end_timestamp):
                    yield offset
                    if offset is not None:
                        left -= 1
                        if left == 0:
                            return
            if header.begin_timestamp < begin_timestamp:
                return

    def flush(self) -> "IndexFlush":
        """Writes all entries, and returns what is left to be done to make the index durable.

        It may be run in a thread, one at a time, while more keys are put, but no file is deleted, cut or closed.
        """
        flushes: list[FileFlush] = []
        for file in self._files:
            if file.is_growing:
                flush = file.flush()
                if flush is not None:
                    flushes.append(flush)
                elif file is not self._files[-1]:
                    file.seal()
        return IndexFlush(self, flushes, self.end_timestamp)

    def delete_before(self, physical_offset: int) -> int:
        """Removes the files whose records all lie before this offset, but never the last; returns how many.

        May block.
        """
        return self.detach_before(physical_offset).run()

    def detach_before(self, physical_offset: int) -> "IndexRemoval":
        """Forgets the same files, and returns what removes them, in a thread if need be."""
        count = 0
        while count < len(self._files) - 1 and self._files[count].header.end_physical_offset < physical_offset:
            count += 1
        removal = IndexRemoval(self._files[:count], self._disk, self._directory)
        del self._files[:count]
        return removal

    def cut(self, physical_offset: int) -> None:
        """Forgets, for good, the records at this offset and after it: the log has lost them. May block."""
        kept = [file for file in self._files if file.header.begin_physical_offset < physical_offset]
        self._keep(len(kept))
        if self._files and self.end_physical_offset >= physical_offset:
            try:
                self._files[-1].cut(physical_offset)
            except StoreDamaged as error:
                log.error("key index: %s; it is made again from the log", error)
                self._keep(len(self._files) - 1)
        if self._files:
            # It may have been full for long.
            self._files[-1].grow()
        self.flush().run()

    def close(self) -> None:
        """Makes everything durable and closes the files. May block."""
        try:
            self.flush().run()
        finally:
            self._close_all()

    def _has(self, hashed: int, physical_offset: int) -> bool:
        # A record's keys may be in two files, if the first of them became full.
        files = takewhile(lambda file: file.header.end_physical_offset >= physical_offset, reversed(self._files))
        return any(file.has(hashed, physical_offset) for file in files)

    def _roll(self) -> IndexFile:
        header = IndexHeader()
        if self._files:
            full = self._files[-1]
            full.write_entries()
            header.begin_timestamp = header.end_timestamp = full.header.end_timestamp
            header.begin_physical_offset = header.end_physical_offset = full.header.end_physical_offset
        else:
            self._disk.make_directory(self._directory)
            self._disk.sync(self._directory.parent)
        file = IndexFile.create(self._disk, self._next_path(), self._shape, header)
        self._files.append(file)
        log.info("key index goes on in %s", file.path)
        return file

    def _next_path(self) -> Path:
        seconds, millis = divmod(self._clock.millis(), 1000)
        name = int(f"{datetime.fromtimestamp(seconds):%Y%m%d%H%M%S}{millis:03d}")
        if self._files:
            # Local time is turned back every autumn, but the newest file is the one whose name is the greatest.
            name = max(name, int(self._files[-1].path.name) + 1)
        return self._directory / f"{name:0{_NAME_DIGITS}d}"

    def _open_all(self) -> list[str]:
        """Opens the files up to the first that is damaged, and removes the others; returns what is wrong with it."""
        damage: list[str] = []
        for name in self._disk.names(self._directory):
            if len(name) != _NAME_DIGITS or not name.isdigit():
                continue
            path = self._directory / name
            try:
                if damage:
                    self._disk.remove(path)
                elif self._has_entries(path):
                    self._files.append(IndexFile.open(self._disk, path, self._shape))
                else:
                    # Made, and then the machine stopped; or the log had no keys.
                    self._disk.remove(path)
            except WrongShape:
                self._close_all()
                raise
            except StoreDamaged as error:
                damage.append(str(error))
                self._disk.remove(path)
        # Java names files by local time, too, and lets them be out of order.
        self._files.sort(key=lambda file: (file.header.begin_physical_offset, file.header.end_physical_offset))
        return damage

    def _has_entries(self, path: Path) -> bool:
        file = self._disk.open(path)
        try:
            header = file.read(0, HEADER.size)
        finally:
            file.close()
        return any(header) and not (len(header) == HEADER.size and IndexHeader.decode(header).is_empty)

    def _restore(self, checkpoint_timestamp: int) -> list[str]:
        for index, file in enumerate(self._files):
            if file is self._files[-1] or file.header.end_timestamp > checkpoint_timestamp:
                try:
                    file.restore()
                except StoreDamaged as error:
                    self._keep(index)
                    return [str(error)]
        return []

    def _keep(self, count: int) -> None:
        """Removes all but the first so many files, the newest first."""
        while len(self._files) > count:
            self._files.pop().remove()
            self._disk.sync(self._directory)

    def _close_all(self) -> None:
        while self._files:
            self._files.pop().close()


def _tag_hashes(topics: Sequence[str], tags: Sequence[bytes]) -> list[int]:
    """Returns the hashes of tags' keys: there are few tags, and each comes often."""
    if topics.count(topics[0]) == len(topics):
        known = {tag: key_hash(topics[0], tag_key(tag)) for tag in set(tags)}
        return list(map(known.__getitem__, tags))
    pairs = list(zip(topics, tags, strict=True))
    known_pairs = {pair: key_hash(pair[0], tag_key(pair[1])) for pair in set(pairs)}
    return [known_pairs[pair] for pair in pairs]


def _hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    return list(map(_hash, topics, keys)) if len(keys) < _FEW else key_hashes(topics, keys)


def _hash(topic: str, key: bytes) -> int:
    is_tag = key.startswith(_TAG_MARK) and len(key) <= _CACHED_SIZE_MAX
    return _tag_hash(topic, key[len(_TAG_MARK) :]) if is_tag else key_hash(topic, key)


@functools.lru_cache(maxsize=8192)
def _tag_hash(topic: str, tag: bytes) -> int:
    """Returns the hash of a tag's key; there are few tags, and each comes often."""
    return key_hash(topic, tag_key(tag))


def _may_hold(header: IndexHeader, begin_timestamp: int, end_timestamp: int) -> bool:
    # If the clock went back a file ends before it begins; then Java's three ways to overlap are not the usual two.
    return (
        (begin_timestamp < header.begin_timestamp and end_timestamp > header.end_timestamp)
        or header.begin_timestamp <= begin_timestamp <= header.end_timestamp
        or header.begin_timestamp <= end_timestamp <= header.end_timestamp
    )


class IndexRemoval:
    """Removes files of the index. Those that could not be removed are found again by the next start."""

    def __init__(self, files: list[IndexFile], disk: Disk, directory: Path) -> None:
        self._files = files
        self._disk = disk
        self._directory = directory

    def run(self) -> int:
        """Returns how many were removed; OSError if one could not be."""
        failures: list[OSError] = []
        for file in self._files:
            try:
                file.remove()
            except OSError as error:
                failures.append(error)
        if self._files:
            self._disk.sync(self._directory)
        if failures:
            raise failures[0]
        return len(self._files)


class IndexFlush:
    """What makes the index durable once its entries are written."""

    def __init__(self, index: KeyIndex, flushes: list[FileFlush], end_timestamp: int) -> None:
        self._index = index
        self._flushes = flushes
        self._end_timestamp = end_timestamp

    def run(self, announce: Callable[[int], None] | None = None) -> int:
        """Returns up to when the index is durable then, for the checkpoint; OSError if it is not.

        The same is announced just before files are changed in a way that shows. Java drops those that are newer than
        the checkpoint says, and a process may be killed at any time.

        SyncFailed if that cannot be known any more, now and at every later flush: a second sync would succeed and
        mean nothing.
        """
        if self._index.failure is not None:
            raise self._index.failure
        try:
            for flush in self._flushes:
                flush.begin()
            if announce is not None and self._flushes:
                announce(self._end_timestamp)
            for flush in self._flushes:
                flush.end()
        except SyncFailed as failure:
            self._index.failure = failure
            raise
        return self._end_timestamp
