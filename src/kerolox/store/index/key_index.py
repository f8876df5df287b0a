"""The key index: physical offsets of messages by key (IndexService)."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from kerolox.message.records.columns import Columns
from kerolox.message.tags import key_hash
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.index.array_loader import ARRAYS
from kerolox.store.index.index_file import ChainEntry, FileFlush, IndexFile
from kerolox.store.index.key_hashes import RecordKeys, index_hash, index_keys
from kerolox.store.index.layout import ENTRY, HEADER, IndexHeader, IndexShape
from kerolox.store.log.segments import OpenFiles

if TYPE_CHECKING:
    from kerolox.store.index.key_arrays import KeyArrays

log = logging.getLogger(__name__)

_NAME_DIGITS = 17
# The keys of fewer records than this are hashed one by one.
_FEW = 16
# Records whose keys wait to be hashed together.
_WAITING_MAX = 256


class KeyBatch:
    """Index keys of consecutive records as columns: each list has one element per key."""

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
    """Index files of one shape, each named after its creation time; only the newest grows.

    In memory are about `pending_max` entries that are not written yet, and all slots of the newest file.
    """

    def __init__(
        self,
        open_files: OpenFiles,
        directory: Path,
        clock: Clock,
        *,
        shape: IndexShape | None = None,
        pending_max: int = 16384,
    ) -> None:
        self._open_files = open_files
        self._disk = open_files.disk
        self._directory = directory
        self._clock = clock
        self._shape = shape or IndexShape()
        self._pending_size_max = pending_max * ENTRY.size
        self._files: list[IndexFile] = []
        # Keys of the last records, not hashed yet; they are put before anything reads or flushes the index.
        self._waiting = RecordKeys()
        # The failed sync after which no flush can succeed, because it is unknown what is durable.
        self.failure: SyncFailed | None = None

    def load(
        self, checkpoint_timestamp: int | None = None, *, heads: Mapping[str, str] | None = None, first_offset: int = 0
    ) -> list[str]:
        """Open the existing files and return the reasons why some were dropped.

        `checkpoint_timestamp` is given after an unclean stop: up to then the index is known to be durable. Java drops
        newer files. We verify them entry by entry, and also the last file, whose slots may be newer than its header.

        `heads` are the expected headers by file name, if they were recorded; after an unclean stop files without one
        are verified too. `first_offset` is the start of the log: files that end before it may be missing.

        The first file that cannot be trusted and all later ones are dropped; the caller must dispatch the log again
        from `end_physical_offset`.
        """
        damage = self._open_all()
        damage += self._compare(heads or {}, first_offset)
        if checkpoint_timestamp is not None:
            damage = self._restore(checkpoint_timestamp, heads) or damage
            try:
                # Write rebuilt slots now: the next process to read the files may be Java, which does not rebuild them.
                self.flush().run()
            except (OSError, SyncFailed) as error:
                log.error("key index: restored slots could not be written yet: %s", error)
        try:
            if self._files:
                self._files[-1].grow()
        except StoreDamaged as error:
            damage.append(str(error))
            self._keep(len(self._files) - 1)
            if self._files:
                self._files[-1].grow()
        for reason in damage:
            log.warning("key index: %s; it is rebuilt from the commit log", reason)
        return damage

    @property
    def heads(self) -> dict[str, str]:
        """File name → header on disk in hexadecimal digits."""
        return {file.path.name: file.durable_header.encode().hex() for file in self._files}

    def _compare(self, heads: Mapping[str, str], first_offset: int) -> list[str]:
        """Drop the first file whose header differs from the expected one, and all later files; return the reason."""
        files = {file.path.name: file for file in self._files}
        for name, digits in heads.items():
            expected = IndexHeader.decode(bytes.fromhex(digits))
            found = files.get(name)
            is_expired = expected.is_empty or expected.end_physical_offset < first_offset
            if (found is None and is_expired) or (found is not None and found.header == expected):
                continue
            ends = [file.header.end_physical_offset for file in self._files[: _index_of(self._files, found)]]
            self._keep(sum(1 for _ in takewhile(expected.begin_physical_offset.__ge__, ends)))
            return [f"{name} is missing" if found is None else f"the header of {name} has changed since it was written"]
        return []

    @property
    def paths(self) -> list[Path]:
        return [file.path for file in self._files]

    @property
    def end_physical_offset(self) -> int:
        """Records before this offset are in the index; of the one at it, all or some keys may be."""
        return self._files[-1].header.end_physical_offset if self._files else 0

    @property
    def indexed_end_offset(self) -> int:
        """`end_physical_offset` + 1, or 0 if there is no file, as recorded in the log checksums."""
        return self.end_physical_offset + 1 if self._files else 0

    @property
    def end_timestamp(self) -> int:
        """Store timestamp of the last record in the index; 0 if there is none."""
        return self._files[-1].header.end_timestamp if self._files else 0

    def add(self, topic: str, keys: tuple[bytes, bytes, bytes], physical_offset: int, store_timestamp: int) -> None:
        """Add unique key, keys and tag of the next record, as `put`, but hash them later, with those of others.

        Hashing hundreds of keys together costs a third of hashing each. OSError as in `put`.
        """
        self._waiting.add(topic, keys, physical_offset, store_timestamp)
        if len(self._waiting) >= _WAITING_MAX:
            self.put_waiting()

    def add_all(self, run: RecordKeys) -> None:
        """Add the keys of the next records, as `add`."""
        self._waiting.extend(run)
        if len(self._waiting) >= _WAITING_MAX:
            self.put_waiting()

    def put_waiting(self) -> None:
        """Put the keys that wait. On OSError all of them still wait; putting those again that were put adds nothing."""
        if len(self._waiting):
            self._put_records(self._waiting)
            self._waiting = RecordKeys()

    def put(self, topic: str, keys: Sequence[bytes], physical_offset: int, store_timestamp: int) -> None:
        """Add all keys of a record, unless it is in the index already.

        On OSError some of them may have been added; putting the record again adds the others.
        """
        self.put_waiting()
        self._put(topic, keys, physical_offset, store_timestamp)

    def _put(self, topic: str, keys: Sequence[bytes], physical_offset: int, store_timestamp: int) -> None:
        if not keys:
            return
        hashes = [index_hash(topic, key) for key in keys]
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

    def put_all(self, batch: KeyBatch) -> None:
        """Add the keys of many records, as `put`. The batch may be changed."""
        self.put_waiting()
        self._put_all(batch)

    def _put_all(self, batch: KeyBatch) -> None:
        end_offset = self.end_physical_offset if self._files else -1
        offsets = batch.offsets
        first = bisect_right(offsets, end_offset)
        if first:
            # The last record in the index may lack some of its keys.
            for at in range(bisect_left(offsets, end_offset), first):
                self._put(batch.topics[at], batch.texts[at : at + 1], end_offset, batch.timestamps[at])
            batch.topics, batch.texts = batch.topics[first:], batch.texts[first:]
            offsets, batch.timestamps = offsets[first:], batch.timestamps[first:]
        self._add(list(map(index_hash, batch.topics, batch.texts)), offsets, batch.timestamps)

    def put_columns(self, run: Columns) -> None:
        """Add the keys of consecutive records, as `put`."""
        self.put_waiting()
        if self._files and run.physical_offsets[-1] < self.end_physical_offset:
            # All of them are in the index already.
            return
        self._put_records(RecordKeys.of(run), may_wait=True)

    def _put_records(self, run: RecordKeys, *, may_wait: bool = False) -> None:
        arrays = None
        if len(run) >= _FEW and (not self._files or run.physical_offsets[0] > self.end_physical_offset):
            arrays = ARRAYS.get(may_wait=may_wait)
        if arrays is None:
            self._put_few(run)
            return
        for part in arrays(run):
            if isinstance(part, RecordKeys):
                self._put_few(part)
            else:
                self._add_arrays(part)

    def _put_few(self, run: RecordKeys) -> None:
        """Add the keys of few records, or of records of which the index may have some."""
        batch = KeyBatch()
        for topic, unique_key, keys, tag, offset, timestamp in zip(
            run.topics, run.unique_keys, run.keys, run.tags, run.physical_offsets, run.store_timestamps, strict=True
        ):
            batch.add(topic, index_keys(unique_key, keys, tag), offset, timestamp)
        self._put_all(batch)

    def _add(self, hashes: Sequence[int], offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        while hashes:
            count = self._growing_file().put_all(hashes, offsets, timestamps)
            hashes, offsets, timestamps = hashes[count:], offsets[count:], timestamps[count:]

    def _add_arrays(self, arrays: "KeyArrays") -> None:
        while arrays:
            count = self._growing_file().put_arrays(arrays)
            arrays = arrays.part(count, len(arrays))

    def _growing_file(self) -> IndexFile:
        """Return a file that has room for an entry, and for more in memory."""
        file = self._files[-1] if self._files else self._roll()
        if file.is_full:
            file = self._roll()
        if len(file.pending) >= self._pending_size_max:
            file.write_entries()
        return file

    def query(
        self, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = 2**63 - 1
    ) -> list[int]:
        """Return physical offsets of at most `count_max` records with this key, newest first.

        Only hashes are compared, so records with other keys may be among them, and times only to the second.
        """
        search = self.search(topic, key, count_max, begin_timestamp, end_timestamp)
        while search.step():
            pass
        return search.found

    def search(
        self, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = 2**63 - 1
    ) -> "KeySearch":
        """Return a search for the result of `query`; other tasks may run and files may be deleted between its steps."""
        try:
            self.put_waiting()
        except OSError as error:
            # The next records to be dispatched find the same; what is in the index can be read.
            log.error("key index: new keys could not be added: %s", error)
        return KeySearch(self._files[::-1], key_hash(topic, key), count_max, (begin_timestamp, end_timestamp))

    def flush(self) -> "IndexFlush":
        """Write all entries and return an IndexFlush that makes the index durable.

        It may run in a thread while more keys are put, but only one at a time, and no file may be deleted, cut or
        closed meanwhile.
        """
        self.put_waiting()
        flushes: list[FileFlush] = []
        for file in self._files:
            if file.is_growing:
                flush = file.flush()
                if flush is not None:
                    flushes.append(flush)
                elif file is not self._files[-1]:
                    file.release_slots()
        return IndexFlush(self, flushes, self.end_timestamp)

    def delete_before(self, physical_offset: int) -> int:
        """Remove the files whose records are all before this offset, but never the last; return how many. Blocks."""
        return self.detach_before(physical_offset).run()

    def detach_before(self, physical_offset: int) -> "IndexRemoval":
        """Drop the files of `delete_before` and return an IndexRemoval that deletes them, in a thread if wanted."""
        count = 0
        while count < len(self._files) - 1 and self._files[count].header.end_physical_offset < physical_offset:
            count += 1
        for file in self._files[:count]:
            file.detach()
        removal = IndexRemoval(self._files[:count], self._disk, self._directory)
        del self._files[:count]
        return removal

    def cut(self, physical_offset: int) -> None:
        """Remove durably the entries at or after this offset, which the log has lost. Blocks."""
        kept = [file for file in self._files if file.header.begin_physical_offset < physical_offset]
        self._keep(len(kept))
        if self._files and self.end_physical_offset >= physical_offset:
            try:
                self._files[-1].cut(physical_offset)
            except StoreDamaged as error:
                log.error("key index: %s; the file is rebuilt from the commit log", error)
                self._keep(len(self._files) - 1)
        if self._files:
            # Its slots may have been released when it was full.
            self._files[-1].grow()
        self.flush().run()

    def close(self) -> None:
        """Make everything durable and close the files. Blocks."""
        try:
            self.flush().run()
        finally:
            self._close_all()

    def _has(self, hashed: int, physical_offset: int) -> bool:
        # The keys of a record may be in two files, if the first became full.
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
        file = IndexFile.create(self._open_files, self._next_path(), self._shape, header)
        self._files.append(file)
        log.info("key index continues in %s", file.path)
        return file

    def _next_path(self) -> Path:
        seconds, millis = divmod(self._clock.millis(), 1000)
        name = int(f"{datetime.fromtimestamp(seconds):%Y%m%d%H%M%S}{millis:03d}")
        if self._files:
            # Local time goes back every autumn, but the newest file must have the greatest name.
            name = max(name, int(self._files[-1].path.name) + 1)
        return self._directory / f"{name:0{_NAME_DIGITS}d}"

    def _open_all(self) -> list[str]:
        """Open the files up to the first damaged one and remove the rest; return the reason."""
        damage: list[str] = []
        for name in self._disk.names(self._directory):
            if len(name) != _NAME_DIGITS or not name.isdigit():
                continue
            path = self._directory / name
            try:
                if damage:
                    self._disk.remove(path)
                elif self._has_entries(path):
                    self._files.append(IndexFile.open(self._open_files, path, self._shape))
                else:
                    # Created, but the process stopped before adding an entry.
                    self._disk.remove(path)
            except StoreDamaged as error:
                damage.append(str(error))
                self._disk.remove(path)
        # Java names files by local time without that correction, so they may be out of order.
        self._files.sort(key=lambda file: (file.header.begin_physical_offset, file.header.end_physical_offset))
        return damage

    def _has_entries(self, path: Path) -> bool:
        file = self._disk.open(path)
        try:
            header = file.read(0, HEADER.size)
        finally:
            file.close()
        return any(header) and not (len(header) == HEADER.size and IndexHeader.decode(header).is_empty)

    def _restore(self, checkpoint_timestamp: int, heads: Mapping[str, str] | None) -> list[str]:
        for index, file in enumerate(self._files):
            is_new = file is self._files[-1] or file.header.end_timestamp > checkpoint_timestamp
            if is_new or (heads is not None and file.path.name not in heads):
                try:
                    file.restore()
                except StoreDamaged as error:
                    self._keep(index)
                    return [str(error)]
        return []

    def _keep(self, count: int) -> None:
        """Remove all but the first `count` files, newest first."""
        while len(self._files) > count:
            self._files.pop().remove()
            self._disk.sync(self._directory)

    def _close_all(self) -> None:
        while self._files:
            self._files.pop().close()


class KeySearch:
    """Searches files, newest first, for entries with a hash, in steps that can be repeated.

    A frequent key has a long chain with old messages at its far end; a step examines one block of it.
    """

    def __init__(self, files: Sequence[IndexFile], hashed: int, count_max: int, times: tuple[int, int]) -> None:
        self._hash = hashed
        self._count_max = count_max
        self._begin_timestamp, self._end_timestamp = times
        self._files = iter(files)
        self._file: IndexFile | None = None if count_max <= 0 else next(self._files, None)
        # The entry at which the next step begins; None for the newest of the file.
        self._number: int | None = None
        # Physical offsets, newest first.
        self.found: list[int] = []

    def step(self) -> bool:
        """Examine the next entries; False at the end of the search. An error leaves the search as it was."""
        file = self._file
        if file is None:
            return False
        entries: list[ChainEntry] = []
        number = self._number
        if number is None:
            is_in_range = _may_hold(file.header, self._begin_timestamp, self._end_timestamp)
            number = file.newest(self._hash) if is_in_range else 0
        if number:
            entries, number = file.follow(number)
        for entry_hash, physical_offset, timestamp in entries:
            if entry_hash == self._hash and self._begin_timestamp <= timestamp <= self._end_timestamp:
                self.found.append(physical_offset)
                if len(self.found) == self._count_max:
                    self._file = None
                    return False
            if timestamp < self._begin_timestamp:
                number = 0
                break
        self._number = number
        if not number:
            is_last = file.header.begin_timestamp < self._begin_timestamp
            self._file, self._number = None if is_last else next(self._files, None), None
        return self._file is not None


def _index_of(files: Sequence[IndexFile], file: IndexFile | None) -> int:
    return len(files) if file is None else files.index(file)


def _may_hold(header: IndexHeader, begin_timestamp: int, end_timestamp: int) -> bool:
    # As in Java (IndexFile.isTimeMatched). If the clock was set back a file may end before it begins; then this is not
    # the usual test for overlap.
    return (
        (begin_timestamp < header.begin_timestamp and end_timestamp > header.end_timestamp)
        or header.begin_timestamp <= begin_timestamp <= header.end_timestamp
        or header.begin_timestamp <= end_timestamp <= header.end_timestamp
    )


class IndexRemoval:
    """Deletes index files. The next start finds those that could not be deleted."""

    def __init__(self, files: list[IndexFile], disk: Disk, directory: Path) -> None:
        self._files = files
        self._disk = disk
        self._directory = directory

    def run(self) -> int:
        """Delete the files and return how many; OSError if one could not be deleted."""
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
    """Makes the index durable after its entries were written."""

    def __init__(self, index: KeyIndex, flushes: list[FileFlush], end_timestamp: int) -> None:
        self._index = index
        self._flushes = flushes
        self._end_timestamp = end_timestamp

    def run(self, announce: Callable[[int], None] | None = None) -> int:
        """Make the index durable and return the timestamp up to which it is, for the checkpoint; OSError if it failed.

        `announce` gets the same timestamp just before headers are written: after a kill, Java drops the files that are
        newer than the checkpoint.

        SyncFailed, now and at every later flush, if it is unknown what is durable: a second fsync could succeed without
        the data being on disk.
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
