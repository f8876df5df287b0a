"""A long row of bytes in files of one size, each named after the offset of its first byte."""

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kerolox.runtime.files import Disk, File
from kerolox.runtime.kernel_syncs import KernelSyncs
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.log.preparation import Preparation
from kerolox.store.log.syncing import OUT_OF_DESCRIPTORS, sync_directory, sync_failed, sync_file

NAME_DIGITS = 20

_CHUNK_SIZE = 1024 * 1024
# More is read in a thread even if it is in memory, where copying it holds up nobody.
AT_ONCE_SIZE_MAX = 256 * 1024


class Span(NamedTuple):
    """A part of a file: where it begins, and how many bytes it has."""

    path: Path
    offset: int
    size: int
    # Whether it need not be read, but only be in memory.
    is_view: bool = False


Brought = Mapping[Span, bytes]


class NotInMemory(Exception):
    """What is to be read has to come from the disk, and whoever reads has no time to wait for it."""

    def __init__(self, spans: Sequence[Span]) -> None:
        super().__init__(spans)
        self.spans = spans


class OpenFiles:
    """The files that are open, at most so many: the one unused for longest is closed for the next."""

    def __init__(self, disk: Disk, files_max: int) -> None:
        self.disk = disk
        self._files_max = files_max
        self._files: OrderedDict[Path, File] = OrderedDict()
        # Those a thread is at work on, and how many are; and which of them nobody wants any more.
        self._held: Counter[File] = Counter()
        self._unwanted: set[File] = set()
        # What was brought from the disk for whoever reads now, and has no time to wait for more; None if it has.
        self.brought: Brought | None = None

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

    def read_at_once(self, file: File, offset: int, size: int, *, is_small: bool) -> bytes:
        """Returns bytes that are in memory, or were brought there; NotInMemory if they are not.

        What is known to be small is waited for all the same if the disk does not tell.
        """
        if size <= AT_ONCE_SIZE_MAX:
            data = file.read_cached(offset, size)
            if data is not None:
                return data
            if is_small and file.is_silent:
                return file.read(offset, size)
        span = Span(file.path, offset, size)
        if not self.brought or span not in self.brought:
            raise NotInMemory([span])
        return self.brought[span]

    def _open(self, path: Path, *, create: bool) -> File:
        while True:
            try:
                return self.disk.open(path, create=create)
            except OSError as error:
                # Sockets take descriptors too, so that there may be fewer than were hoped for.
                if error.errno not in OUT_OF_DESCRIPTORS or not self.shed():
                    raise

    def shed(self) -> bool:
        """Closes half of the files that nobody holds, those unused for longest; False if there are none."""
        idle = [path for path, file in self._files.items() if file not in self._held]
        for path in idle[: (len(idle) + 1) // 2]:
            self.forget(path)
        return bool(idle)

    def hold(self, path: Path) -> File:
        """Returns a file that stays open until it is released, whoever else comes."""
        file = self.get(path)
        self._held[file] += 1
        return file

    def release(self, file: File) -> None:
        self._held[file] -= 1
        if not self._held[file]:
            del self._held[file]
            if file in self._unwanted:
                self._unwanted.remove(file)
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
            self._unwanted.add(file)
        else:
            file.close()


class Segments:
    """Offsets run on from file to file; what is read or written at once lies within one of them."""

    def __init__(
        self, files: OpenFiles, directory: Path, segment_size: int, *, is_sparse: bool = False, new_above: int = 2
    ) -> None:
        self._files = files
        self._disk = files.disk
        self._is_sparse = is_sparse
        # How many directories above this one may be as new as the first file.
        self._new_above = new_above
        self.directory = directory
        self.segment_size = segment_size
        # Where each file begins, in order and without a gap.
        self._starts: list[int] = []
        self._paths: dict[int, Path] = {}
        # Directories with names in them that a power cut may take.
        self._unsynced: tuple[Path, ...] = ()
        # The next file, while it is being made.
        self._preparation: Preparation | None = None
        # The file that was shown last, and where it begins: mostly it is the one that is asked for next.
        self._shown: memoryview | None = None
        self._shown_start = 0

    def load(self) -> None:
        """Finds the files that are there; StoreDamaged if one has another size, or one is missing in between."""
        names = [name for name in self._disk.names(self.directory) if len(name) == NAME_DIGITS and name.isdigit()]
        starts = [int(name) for name in names]
        for index, start in enumerate(starts):
            file = self._files.get(self._path(start))
            size = file.size()
            if size < self.segment_size and start == starts[-1] and _is_blank(file, size):
                # Made, and never given its size: the machine stopped in between. If it stays, it is made anew later.
                with contextlib.suppress(OSError):
                    self._remove(starts.pop())
                break
            if self._is_sparse and size < self.segment_size:
                # Of what can be made again the size is synced with the rest, and no sooner.
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
        """Where the first file begins; 0 if there is none."""
        return self._starts[0] if self._starts else 0

    @property
    def end_offset(self) -> int:
        """Where the last file ends; 0 if there is none."""
        return self._starts[-1] + self.segment_size if self._starts else 0

    def start_of(self, offset: int) -> int:
        """Returns where the file that holds `offset` begins."""
        return offset - offset % self.segment_size

    def room_after(self, offset: int) -> int:
        """Returns how many bytes follow `offset` in its file."""
        return self.segment_size - offset % self.segment_size

    def read(self, offset: int, size: int) -> bytes:
        """Returns at most `size` bytes, and none beyond the file's end or where no file is.

        NotInMemory if whoever reads now has no time to wait for them.
        """
        if size <= 0 or not self.first_offset <= offset < self.end_offset:
            return b""
        start = self.start_of(offset)
        file, size = self._files.get(self._path(start)), min(size, self.room_after(offset))
        if self._files.brought is None:
            return file.read(offset - start, size)
        return self._files.read_at_once(file, offset - start, size, is_small=self._is_sparse)

    def read_into(self, offset: int, target: memoryview) -> memoryview:
        """Returns as much of `target` as it has filled, for whoever has the time to wait for it."""
        if not self.first_offset <= offset < self.end_offset:
            return target[:0]
        start = self.start_of(offset)
        file = self._files.get(self._path(start))
        return target[: file.read_into(offset - start, target[: self.room_after(offset)])]

    def view(self, offset: int) -> memoryview | None:
        """Returns the whole file that holds `offset`, to be read only; None if there is none, or it cannot be had."""
        if self._shown is not None and 0 <= offset - self._shown_start < self.segment_size:
            return self._shown
        if not self.first_offset <= offset < self.end_offset:
            return None
        start = self.start_of(offset)
        self._shown, self._shown_start = self._files.get(self._path(start)).view(), start
        return self._shown

    def view_at_once(self, offset: int, size: int) -> memoryview | None:
        """Returns the file that holds `offset` if these bytes of it were brought to memory for whoever reads now.

        NotInMemory if they were not; None if whoever reads can wait for them.
        """
        brought, start = self._files.brought, self.start_of(offset)
        if brought is None:
            return None
        span = Span(self._path(start), offset - start, size, is_view=True)
        if span not in brought:
            raise NotInMemory([span])
        return self.view(offset)

    def data_end(self, start: int) -> int:
        """Returns an offset after which the file that begins at `start` was never written, and has only zeros."""
        return start + min(self._files.get(self._path(start)).data_end(), self.segment_size)

    def write(self, offset: int, data: bytes) -> None:
        """Writes within the file that holds `offset`, which must be there."""
        starts, size = self._starts, self.segment_size
        at = offset % size
        assert starts[0] <= offset < starts[-1] + size
        assert at + len(data) <= size
        self._files.get(self._path(offset - at)).write(at, data)

    def extend(self, offset: int) -> None:
        """Makes the file that holds `offset`, at its full size; it follows the last, or is the first of all.

        OSError, and no file, if there is no room for it; SyncFailed if it might not survive a power cut.
        """
        if self._is_sparse:
            self._extend_sparse(self.start_of(offset))
            return
        while True:
            preparation = self.prepare(offset)
            preparation.run()
            try:
                self.adopt(preparation)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self.shed():
                    raise
            else:
                return

    def prepare(self, offset: int) -> Preparation:
        """Returns what makes the same file in a thread, to be adopted afterwards; always the same one until it is."""
        start = self.start_of(offset)
        assert not self._is_sparse
        assert not self._starts or start == self.end_offset
        if self._preparation is None:
            self._preparation = Preparation(self._disk, self._path(start), start, self.segment_size)
        assert self._preparation.start == start
        return self._preparation

    def adopt(self, preparation: Preparation) -> None:
        """Takes a file into use that was made, unless it is already; otherwise raises what `extend` would."""
        if preparation is self._preparation:
            self._preparation = None
            if preparation.is_done:
                self._starts.append(preparation.start)
        if preparation.failure is not None:
            raise preparation.failure

    def shed(self) -> bool:
        """Closes files that can be opened again; False if there are none."""
        return self._files.shed()

    def _extend_sparse(self, start: int) -> None:
        assert not self._starts or start == self.end_offset
        if not self._starts:
            self._disk.make_directory(self.directory, is_durable=False)
        file = self._files.get(self._path(start), create=True)
        try:
            # Nothing is left of one that could not be removed. No room is reserved: what is lost is made again.
            file.truncate(0)
            file.truncate(self.segment_size)
        except OSError:
            self._remove(start)
            raise
        if not self._starts:
            # A queue's directory may be new, and so may be its topic's.
            self._unsynced = (self.directory, *self.directory.parents[: self._new_above])
        else:
            self._unsynced = self._unsynced or (self.directory,)
        self._starts.append(start)

    def sync(self, start_offset: int, end_offset: int) -> None:
        """Makes what was written from one offset to another survive a power cut; SyncFailed if it may not."""
        sync = self.hold(start_offset, end_offset)
        try:
            sync.run()
        finally:
            self.release(sync)

    def hold(self, start_offset: int, end_offset: int) -> "Sync":
        """Returns what does the same in a thread; to be released afterwards, whatever came of it."""
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
        """Removes the files that begin at `offset` or after it; what follows it in a sparse one becomes zeros."""
        while self._starts and self._starts[-1] >= offset:
            self._remove(self._starts[-1])
            self._starts.pop()
        if self._is_sparse and offset < self.end_offset:
            file = self._files.get(self._path(self._starts[-1]))
            file.truncate(offset - self._starts[-1])
            file.truncate(self.segment_size)

    def delete_before(self, offset: int) -> int:
        """Removes the files that end at `offset` or before it, but never the last; returns how many. May block."""
        count = 0
        while (removal := self.detach(offset)) is not None:
            try:
                removal.run()
            finally:
                self.settle(removal)
            count += 1
        return count

    def detach(self, offset: int) -> "Removal | None":
        """Forgets the first file if it ends at `offset` or before it, and is not the last.

        Returns what removes it, in a thread if need be; to be settled afterwards, the last that was detached first.
        """
        if len(self._starts) < 2 or self._starts[0] + self.segment_size > offset:
            return None
        path = self._path(self._starts[0])
        del self._paths[self._starts.pop(0)]
        self._shown = None
        self._files.forget(path)
        return Removal(self._disk, path)

    def settle(self, removal: "Removal") -> None:
        """Takes a file back that could not be removed: without it, but with an older one, there would be a gap."""
        if not removal.is_gone:
            self._starts.insert(0, int(removal.path.name))

    def forget(self) -> None:
        """Forgets all files without touching them."""
        for start in self._starts:
            self._files.forget(self._path(start))
        self._starts.clear()
        self._paths.clear()
        self._shown = None

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
        self._shown = None
        self._files.forget(path)
        self._disk.remove(path)
        self._disk.sync(self.directory)


def _is_blank(file: File, size: int) -> bool:
    """Whether nothing was ever written to a file of this size."""
    chunks = (file.read(at, min(_CHUNK_SIZE, size - at)) for at in range(0, size, _CHUNK_SIZE))
    return all(chunk == bytes(len(chunk)) for chunk in chunks)


class Removal:
    """Removes a file for good. It may run in a thread; who reads or syncs the file meanwhile has it open still."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.is_gone = False
        self._disk = disk

    def run(self) -> None:
        """OSError if the file is still there, or if a power cut may bring it back."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(self.path)
        self.is_gone = True
        self._disk.sync(self.path.parent)


class Sync:
    """Makes files and the names in directories survive a power cut. It may run in a thread."""

    def __init__(self, files: Sequence[File], disk: Disk, directories: tuple[Path, ...]) -> None:
        self.files = files
        self.directories = directories
        self.is_done = False
        self.failure: SyncFailed | None = None
        self._disk = disk

    def run(self, named: set[Path] | None = None) -> None:
        """SyncFailed if it is not known what survived; doing it again would not tell. OSError if it would.

        Directories in `named` were synced a moment ago, for another sync that was held at the same time.
        """
        try:
            for file in self.files:
                sync_file(file)
            for directory in self.directories:
                if named is None or directory not in named:
                    sync_directory(self._disk, directory)
        except SyncFailed as failure:
            self.failure = failure
            raise
        if named is not None:
            named.update(self.directories)
        self.is_done = True

    def begin(self, syncs: KernelSyncs, ended: Callable[[], object]) -> bool:
        """Has the kernel do the same, and tell when it has ended; False if it must be run."""
        if len(self.files) != 1 or self.directories:
            return False
        (file,) = self.files

        def end(error: OSError | None) -> None:
            if error is None:
                self.is_done = True
            else:
                self.failure = sync_failed(file, error)
            ended()

        return file.begin_sync(syncs, end)


def run_all(syncs: Sequence[Sync]) -> list[OSError | SyncFailed]:
    """Runs syncs that were held at the same time, all of them whatever fails, and returns what did."""
    named: set[Path] = set()
    failures: list[OSError | SyncFailed] = []
    for sync in syncs:
        try:
            sync.run(named)
        except (OSError, SyncFailed) as error:
            failures.append(error)
    return failures
