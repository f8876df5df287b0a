"""A byte sequence in files of equal size, each named after the offset of its first byte (MappedFileQueue)."""

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from kerolox.runtime.aio_fsync import AioFsync
from kerolox.runtime.files import Disk, File
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.log.fsync import OUT_OF_DESCRIPTORS, sync_directory, sync_failed, sync_file
from kerolox.store.log.new_file import NewFile

R = TypeVar("R")

NAME_DIGITS = 20

_CHUNK_SIZE = 1024 * 1024
# Larger reads go to a thread even if the bytes are in the page cache: copying them would hold up the event loop.
INLINE_READ_SIZE_MAX = 256 * 1024


class Span(NamedTuple):
    """A range of bytes in a file."""

    path: Path
    offset: int
    size: int
    # Whether the pages only have to be brought into memory, for a mapped view, rather than copied.
    is_view: bool = False


# Spans that a thread has read; empty bytes for views.
Fetched = Mapping[Span, bytes]

_NOTHING_FETCHED: Fetched = {}


class NotInMemory(Exception):
    """A read on the event loop would have to wait for the disk; read `spans` in a thread first (`ColdReads`)."""

    def __init__(self, spans: Sequence[Span]) -> None:
        super().__init__(spans)
        self.spans = spans


class OpenFiles:
    """An LRU cache of open files: the least recently used one is closed when `files_max` are open."""

    def __init__(self, disk: Disk, files_max: int) -> None:
        self.disk = disk
        self._files_max = files_max
        self._files: OrderedDict[Path, File] = OrderedDict()
        # Files used by threads, with the number of holders; and those of them to close on release.
        self._held: Counter[File] = Counter()
        self._closing: set[File] = set()
        # Spans fetched for the call of `in_memory` in progress; None if there is none, so that reads may wait.
        self._fetched: Fetched | None = None

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: Path, *, create: bool = False) -> File:
        file = self._files.get(path)
        if file is None:
            self._make_room()
            file = self._files[path] = self._open(path, create=create)
        else:
            self._files.move_to_end(path)
        return file

    def in_memory(self, read: Callable[[], R], fetched: Fetched = _NOTHING_FETCHED) -> R:
        """Return `read()`, during which no read of these files waits for the disk.

        NotInMemory if one needs bytes that are neither in the page cache nor `fetched`. `read` is a plain function, so
        the rule applies to nothing else.
        """
        assert self._fetched is None
        self._fetched = fetched
        try:
            return read()
        finally:
            self._fetched = None

    def waiting(self, repair: Callable[[], R]) -> R:
        """Return `repair()`, during which reads may wait for the disk, even within `in_memory`."""
        fetched, self._fetched = self._fetched, None
        try:
            return repair()
        finally:
            self._fetched = fetched

    def has_fetched(self, span: Span) -> bool | None:
        """Whether a span was fetched for the read in progress; None if this read may wait for the disk."""
        return None if self._fetched is None else span in self._fetched

    def read(self, path: Path, offset: int, size: int, *, is_small: bool = False) -> bytes:
        """Return bytes of a file; NotInMemory as in `in_memory`.

        With `is_small` the read waits for the disk if the system cannot tell what the page cache holds.
        """
        file = self.get(path)
        if self._fetched is None:
            return file.read(offset, size)
        if size <= INLINE_READ_SIZE_MAX:
            data = file.read_cached(offset, size)
            if data is not None:
                return data
            if is_small and file.lacks_cached_reads:
                return file.read(offset, size)
        span = Span(path, offset, size)
        data = self._fetched.get(span)
        if data is None:
            data = _part_of(self._fetched, span)
        if data is None:
            raise NotInMemory([span])
        return data

    def _open(self, path: Path, *, create: bool) -> File:
        while True:
            try:
                return self.disk.open(path, create=create)
            except OSError as error:
                # Sockets use descriptors too, so the limit may be reached before `files_max`.
                if error.errno not in OUT_OF_DESCRIPTORS or not self.close_idle():
                    raise

    def close_idle(self) -> bool:
        """Close the less recently used half of the files that are not held; False if there are none."""
        idle = [path for path, file in self._files.items() if file not in self._held]
        for path in idle[: (len(idle) + 1) // 2]:
            self.forget(path)
        return bool(idle)

    def hold(self, path: Path) -> File:
        """Return a file that stays open until `release`, for use in a thread."""
        file = self.get(path)
        self._held[file] += 1
        return file

    def release(self, file: File) -> None:
        self._held[file] -= 1
        if not self._held[file]:
            del self._held[file]
            if file in self._closing:
                self._closing.remove(file)
                file.close()

    def forget(self, path: Path) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            self._close(file)

    def close(self) -> None:
        while self._files:
            _, file = self._files.popitem()
            self._close(file)

    def _make_room(self) -> None:
        while len(self._files) >= self._files_max:
            oldest = next((path for path, file in self._files.items() if file not in self._held), None)
            if oldest is None:
                return
            self.forget(oldest)

    def _close(self, file: File) -> None:
        if file in self._held:
            self._closing.add(file)
        else:
            file.close()


class Segments:
    """Offsets continue from file to file; a single read or write stays within one file.

    With `is_sparse` the content can be rebuilt from the commit log, so files get neither disk space nor a durable name
    in advance. `parents_to_sync` is how many parent directories may have been created with the first file.
    """

    def __init__(
        self, files: OpenFiles, directory: Path, segment_size: int, *, is_sparse: bool = False, parents_to_sync: int = 2
    ) -> None:
        self._files = files
        self._disk = files.disk
        self._is_sparse = is_sparse
        self._parents_to_sync = parents_to_sync
        self.directory = directory
        self.segment_size = segment_size
        # Start offset of each file, ascending and without gaps.
        self._starts: list[int] = []
        self._paths: dict[int, Path] = {}
        # Directories with entries that a power cut may lose.
        self._unsynced: tuple[Path, ...] = ()
        # The next file, while it is being created.
        self._new_file: NewFile | None = None
        # The view returned last and its start offset: most calls ask for the same file.
        self._last_view: memoryview | None = None
        self._last_view_start = 0

    def load(self) -> None:
        """Find the existing files; StoreDamaged if one has the wrong size or is missing in between."""
        names = list(filter(_is_segment_name, self._disk.names(self.directory)))
        starts = [int(name) for name in names]
        for index, start in enumerate(starts):
            file = self._files.get(self._path(start))
            size = file.size()
            if size < self.segment_size and start == starts[-1] and _is_blank(file, size):
                # The machine stopped between creating the file and extending it. If it cannot be removed now, it is
                # overwritten when the next file is created.
                with contextlib.suppress(OSError):
                    self._remove(starts.pop())
                break
            if self._is_sparse and size < self.segment_size:
                # The size of a sparse file is synced only with its content, so a power cut may have lost it.
                file.truncate(self.segment_size)
            elif size != self.segment_size:
                raise StoreDamaged(f"{self._path(start)} has {size} bytes, expected {self.segment_size}")
            if start != starts[0] + index * self.segment_size:
                raise StoreDamaged(f"{self._path(start)} does not follow the file before it")
        self._starts = starts

    @property
    def starts(self) -> list[int]:
        return list(self._starts)

    @property
    def first_offset(self) -> int:
        """Start of the first file; 0 if there is none."""
        return self._starts[0] if self._starts else 0

    @property
    def end_offset(self) -> int:
        """End of the last file; 0 if there is none."""
        return self._starts[-1] + self.segment_size if self._starts else 0

    def start_of(self, offset: int) -> int:
        """Return the start of the file that holds `offset`."""
        return offset - offset % self.segment_size

    def room_after(self, offset: int) -> int:
        """Return the number of bytes from `offset` to the end of its file."""
        return self.segment_size - offset % self.segment_size

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes, none beyond the end of the file or where there is no file.

        NotInMemory as in `OpenFiles.in_memory`.
        """
        if size <= 0 or not self.first_offset <= offset < self.end_offset:
            return b""
        start = self.start_of(offset)
        size = min(size, self.room_after(offset))
        return self._files.read(self._path(start), offset - start, size, is_small=self._is_sparse)

    def read_into(self, offset: int, target: memoryview) -> memoryview:
        """Read into `target` and return the filled part of it; may wait for the disk."""
        if not self.first_offset <= offset < self.end_offset:
            return target[:0]
        start = self.start_of(offset)
        file = self._files.get(self._path(start))
        return target[: file.read_into(offset - start, target[: self.room_after(offset)])]

    def view(self, offset: int) -> memoryview | None:
        """Return a read-only view of the file that holds `offset`; None if there is no file or it cannot be mapped."""
        if self._last_view is not None and 0 <= offset - self._last_view_start < self.segment_size:
            return self._last_view
        if not self.first_offset <= offset < self.end_offset:
            return None
        start = self.start_of(offset)
        self._last_view, self._last_view_start = self._files.get(self._path(start)).view(), start
        return self._last_view

    def view_fetched(self, offset: int, size: int) -> memoryview | None:
        """Return a view of the file that holds `offset` if these bytes of it were fetched for the read in progress.

        NotInMemory if they were not; None if the read may wait for the disk.
        """
        start = self.start_of(offset)
        span = Span(self._path(start), offset - start, size, is_view=True)
        is_fetched = self._files.has_fetched(span)
        if is_fetched is None:
            return None
        if not is_fetched:
            raise NotInMemory([span])
        return self.view(offset)

    def data_end(self, start: int) -> int:
        """Return an offset after which the file that begins at `start` was never written and has only zeros."""
        return start + min(self._files.get(self._path(start)).data_end(), self.segment_size)

    def write(self, offset: int, data: bytes) -> None:
        """Write within the file that holds `offset`, which must exist."""
        starts, size = self._starts, self.segment_size
        at = offset % size
        assert starts[0] <= offset < starts[-1] + size
        assert at + len(data) <= size
        self._files.get(self._path(offset - at)).write(at, data)

    def extend(self, offset: int) -> None:
        """Create the file that holds `offset`, at its full size; it must follow the last file or be the first of all.

        OSError, and no file, if there is no disk space; SyncFailed if the file might not survive a power cut.
        """
        if self._is_sparse:
            self._extend_sparse(self.start_of(offset))
            return
        while True:
            new_file = self.prepare(offset)
            new_file.run()
            try:
                self.adopt(new_file)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self.close_idle():
                    raise
            else:
                return

    def prepare(self, offset: int) -> NewFile:
        """Return a NewFile that creates the file of `extend`, in a thread if wanted; pass it to `adopt` afterwards.

        Until then every call returns the same object.
        """
        start = self.start_of(offset)
        assert not self._is_sparse
        assert not self._starts or start == self.end_offset
        if self._new_file is None:
            self._new_file = NewFile(self._disk, self._path(start), start, self.segment_size)
        assert self._new_file.start == start
        return self._new_file

    def adopt(self, new_file: NewFile) -> None:
        """Append a created file to the segments, unless it was adopted before; raises as `extend` if it failed."""
        if new_file is self._new_file:
            self._new_file = None
            if new_file.is_done:
                self._starts.append(new_file.start)
        if new_file.failure is not None:
            raise new_file.failure

    def close_idle(self) -> bool:
        """Close files that can be opened again, to free descriptors; False if there are none."""
        return self._files.close_idle()

    def _extend_sparse(self, start: int) -> None:
        assert not self._starts or start == self.end_offset
        if not self._starts:
            self._disk.make_directory(self.directory, is_durable=False)
        file = self._files.get(self._path(start), create=True)
        try:
            # Truncating to 0 erases a leftover file that could not be removed. No disk space is reserved.
            file.truncate(0)
            file.truncate(self.segment_size)
        except OSError:
            self._remove(start)
            raise
        if not self._starts:
            # The directories of a queue and of its topic may be new as well.
            self._unsynced = (self.directory, *self.directory.parents[: self._parents_to_sync])
        else:
            self._unsynced = self._unsynced or (self.directory,)
        self._starts.append(start)

    def sync(self, start_offset: int, end_offset: int) -> None:
        """Make the bytes between two offsets durable; SyncFailed if they may not be. Blocks."""
        sync = self.prepare_sync(start_offset, end_offset)
        try:
            sync.run()
        finally:
            self.release(sync)

    def prepare_sync(self, start_offset: int, end_offset: int) -> "Sync":
        """Return a Sync of the range that can run in a thread; pass it to `release` afterwards, even if it failed."""
        starts = [start for start in self._starts if start + self.segment_size > start_offset and start < end_offset]
        files: list[File] = []
        try:
            files.extend(self._files.hold(self._path(start)) for start in starts)
        except OSError:
            for file in files:
                self._files.release(file)
            raise
        directories, self._unsynced = self._unsynced, ()
        return Sync(files, self._disk, directories)

    def release(self, sync: "Sync") -> None:
        for file in sync.files:
            self._files.release(file)
        if not sync.is_done:
            self._unsynced = sync.directories or self._unsynced

    def cut(self, offset: int) -> None:
        """Remove the files that begin at or after `offset`; in a sparse file, zero everything after it."""
        while self._starts and self._starts[-1] >= offset:
            self._remove(self._starts[-1])
            self._starts.pop()
        if self._is_sparse and offset < self.end_offset:
            file = self._files.get(self._path(self._starts[-1]))
            file.truncate(offset - self._starts[-1])
            file.truncate(self.segment_size)

    def discard(self) -> None:
        """Remove all files, including those that `load` rejected."""
        self.forget()
        for name in self._disk.names(self.directory):
            if _is_segment_name(name):
                self._files.forget(self.directory / name)
                self._disk.remove(self.directory / name)
                self._disk.sync(self.directory)

    def delete_before(self, offset: int) -> int:
        """Remove the files that end at or before `offset`, but never the last; return how many. Blocks."""
        count = 0
        while (removal := self.detach(offset)) is not None:
            try:
                removal.run()
            finally:
                self.finish_removal(removal)
            count += 1
        return count

    def detach(self, offset: int) -> "Removal | None":
        """Drop the first file from the segments if it ends at or before `offset` and is not the last.

        Return a Removal that deletes it, in a thread if wanted; pass it to `finish_removal` afterwards. Of several
        detached files, finish the one detached last first.
        """
        if len(self._starts) < 2 or self._starts[0] + self.segment_size > offset:
            return None
        path = self._path(self._starts[0])
        del self._paths[self._starts.pop(0)]
        self._last_view = None
        self._files.forget(path)
        return Removal(self._disk, path)

    def finish_removal(self, removal: "Removal") -> None:
        """Take a file back that could not be removed: if an older one remains too, there would be a gap."""
        if not removal.is_removed:
            self._starts.insert(0, int(removal.path.name))

    def forget(self) -> None:
        """Close all files and drop them from the segments; the files on disk stay."""
        for start in self._starts:
            self._files.forget(self._path(start))
        self._starts.clear()
        self._paths.clear()
        self._last_view = None

    def path_of(self, offset: int) -> Path:
        return self._path(self.start_of(offset))

    def _path(self, start: int) -> Path:
        path = self._paths.get(start)
        if path is None:
            path = self._paths[start] = self.directory / f"{start:0{NAME_DIGITS}d}"
        return path

    def _remove(self, start: int) -> None:
        path = self._path(start)
        del self._paths[start]
        self._last_view = None
        self._files.forget(path)
        self._disk.remove(path)
        self._disk.sync(self.directory)


def _part_of(fetched: Fetched, wanted: Span) -> bytes | None:
    """Return the bytes of a span that is part of a fetched one: a repeated read may need less than before."""
    for span, data in fetched.items():
        at = wanted.offset - span.offset
        if span.path == wanted.path and 0 <= at <= span.size - wanted.size and not span.is_view:
            return data[at : at + wanted.size]
    return None


def _is_segment_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isdigit()


def _is_blank(file: File, size: int) -> bool:
    """Whether the file, which is `size` bytes long, has only zeros."""
    chunks = (file.read(at, min(_CHUNK_SIZE, size - at)) for at in range(0, size, _CHUNK_SIZE))
    return all(chunk == bytes(len(chunk)) for chunk in chunks)


class Removal:
    """Deletes a file durably. It may run in a thread; readers and syncs in progress keep the file open."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.is_removed = False
        self._disk = disk

    def run(self) -> None:
        """Delete the file; OSError if it still exists, or if a power cut may bring it back."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(self.path)
        self.is_removed = True
        self._disk.sync(self.path.parent)


class Sync:
    """Syncs files and directories. It may run in a thread."""

    def __init__(self, files: Sequence[File], disk: Disk, directories: tuple[Path, ...]) -> None:
        self.files = files
        self.directories = directories
        self.is_done = False
        self.failure: SyncFailed | None = None
        self._disk = disk

    def run(self, synced_directories: set[Path] | None = None) -> None:
        """Sync; SyncFailed if it is unknown what is durable, and a retry would not tell; OSError if a retry may help.

        Directories in `synced_directories` are skipped: another Sync prepared at the same time has synced them.
        """
        try:
            for file in self.files:
                sync_file(file)
            for directory in self.directories:
                if synced_directories is None or directory not in synced_directories:
                    sync_directory(self._disk, directory)
        except SyncFailed as failure:
            self.failure = failure
            raise
        if synced_directories is not None:
            synced_directories.update(self.directories)
        self.is_done = True

    def begin(self, syncs: AioFsync, on_end: Callable[[], object]) -> bool:
        """Submit the sync to the kernel and call `on_end` when it has ended; False if `run` is needed instead."""
        if len(self.files) != 1 or self.directories:
            return False
        (file,) = self.files

        def end(error: OSError | None) -> None:
            if error is None:
                self.is_done = True
            else:
                self.failure = sync_failed(file, error)
            on_end()

        return file.begin_sync(syncs, end)


def run_all(syncs: Sequence[Sync]) -> list[OSError | SyncFailed]:
    """Run syncs that were prepared at the same time; a failure does not stop the others. Return the failures."""
    synced_directories: set[Path] = set()
    failures: list[OSError | SyncFailed] = []
    for sync in syncs:
        try:
            sync.run(synced_directories)
        except (OSError, SyncFailed) as error:
            failures.append(error)
    return failures
