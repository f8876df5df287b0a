"""A disk that refuses all changes."""

import os
from pathlib import Path

from kerolox.runtime.aio_fsync import AioFsync, SyncCallback
from kerolox.runtime.files import Disk, File, RealDisk, RealFile


class ReadOnlyDisk:
    """Wraps a disk, by default the real one; real files are opened read-only."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or RealDisk()

    def read(self, path: Path) -> bytes | None:
        return self._disk.read(path)

    def write(self, path: Path, data: bytes) -> None:
        raise _refused(path)

    def sync(self, path: Path) -> None:
        raise _refused(path)

    def rename(self, source: Path, target: Path) -> None:
        raise _refused(target)

    def write_back(self, path: Path) -> None:
        raise _refused(path)

    def open(self, path: Path, *, create: bool = False) -> File:
        if isinstance(self._disk, RealDisk):
            return RealFile(path, os.O_RDONLY | os.O_CLOEXEC)
        return _ReadOnlyFile(self._disk.open(path))

    def remove(self, path: Path) -> None:
        raise _refused(path)

    def remove_directory(self, path: Path) -> None:
        raise _refused(path)

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        raise _refused(path)

    def names(self, directory: Path) -> list[str]:
        try:
            return self._disk.names(directory)
        except NotADirectoryError:
            return []

    def modified_millis(self, path: Path) -> int:
        return self._disk.modified_millis(path)

    def used_ratio(self, path: Path) -> float:
        return self._disk.used_ratio(path)


class _ReadOnlyFile:
    def __init__(self, file: File) -> None:
        self.path = file.path
        self._file = file

    @property
    def lacks_cached_reads(self) -> bool:
        return self._file.lacks_cached_reads

    def read(self, offset: int, size: int) -> bytes:
        return self._file.read(offset, size)

    def read_into(self, offset: int, target: memoryview) -> int:
        return self._file.read_into(offset, target)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        return self._file.read_cached(offset, size)

    def prefetch(self, offset: int, size: int) -> None:
        self._file.prefetch(offset, size)

    def view(self) -> memoryview | None:
        return self._file.view()

    def write(self, offset: int, data: bytes) -> None:
        raise _refused(self.path)

    def sync(self) -> None:
        raise _refused(self.path)

    def begin_sync(self, syncs: AioFsync, ended: SyncCallback) -> bool:
        raise _refused(self.path)

    def allocate(self, size: int) -> None:
        raise _refused(self.path)

    def truncate(self, size: int) -> None:
        raise _refused(self.path)

    def size(self) -> int:
        return self._file.size()

    def data_end(self) -> int:
        return self._file.data_end()

    def close(self) -> None:
        self._file.close()


def _refused(path: Path) -> OSError:
    return OSError(f"refused to change {path}: the store is opened read-only")
