"""All disk access goes through `Disk` and `File`, so that tests can record writes, make them fail, or tear them."""

import ctypes
import errno
import functools
import mmap
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kerolox.runtime.aio_fsync import AioFsync, SyncCallback

BACKUP_SUFFIX = ".bak"
TEMPORARY_SUFFIX = ".tmp"

_HOLES_MAX = 1000
# Reads only what is in the page cache. Linux only, and not on every file system.
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
_NOT_SENDABLE = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP, errno.ENOTSUP))
_CHUNK_SIZE = 1024 * 1024
_UNSUPPORTED = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS))


class File(Protocol):
    """An open file, read and written at offsets. A read past its end returns fewer bytes than requested."""

    path: Path

    @property
    def lacks_cached_reads(self) -> bool:
        """Whether `read_cached` is known not to work on this file system, and always returns None."""

    def read(self, offset: int, size: int) -> bytes: ...

    def read_into(self, offset: int, target: memoryview) -> int:
        """Fill `target` as far as the file goes, and return the number of bytes read."""

    def read_cached(self, offset: int, size: int) -> bytes | None:
        """Return the bytes if all of them are in the page cache; None if reading may block on the disk."""

    def prefetch(self, offset: int, size: int) -> None:
        """Read these bytes into the page cache; OSError if one of them cannot be read."""

    def view(self) -> memoryview | None:
        """Return a read-only memory map of the whole file, which shows later writes; None if it cannot be mapped.

        The file must have its full size already and must not shrink: access beyond a truncation ends the process
        with SIGBUS.
        """

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data`, or raise OSError; after an error any part of it may have been written."""

    def sync(self) -> None:
        """Make the written bytes durable (fdatasync).

        After a failure a later success proves nothing: the kernel may have dropped the dirty pages.
        """

    def begin_sync(self, syncs: AioFsync, callback: SyncCallback) -> bool:
        """Start a sync and call `callback` when it has completed; False, and no call, if it cannot be started."""

    def allocate(self, size: int) -> None:
        """Make the file `size` bytes long and reserves the disk space; OSError if the disk is full."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def data_end(self) -> int:
        """Return an offset after which the file has only never-written zeros, or the file size if unknown.

        Call it before reading: file systems report pages in the page cache as data, even if they were only read.
        """

    def close(self) -> None: ...


class Disk(Protocol):
    """The primitive file operations. Crash tests stop the machine at each one that changes something."""

    def read(self, path: Path) -> bytes | None:
        """Return the content of the file, or None if it does not exist."""

    def write(self, path: Path, data: bytes) -> None:
        """Create or truncate the file and write `data`, which is not durable until `sync`."""

    def sync(self, path: Path) -> None:
        """Make the content of a file, or the entries of a directory, durable."""

    def write_back(self, path: Path) -> None:
        """Write back all dirty pages of the file system that holds `path`, which makes many later syncs cheap.

        It guarantees nothing, and does nothing on platforms without syncfs.
        """

    def rename(self, source: Path, target: Path) -> None: ...

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for reading and writing; FileNotFoundError if it does not exist and `create` is false."""

    def remove(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory; OSError if it is not empty."""

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        """Make the directory and its missing parents; durably, unless `is_durable` is false."""

    def names(self, directory: Path) -> list[str]:
        """Return the sorted names in a directory; an empty list if it does not exist."""

    def modified_millis(self, path: Path) -> int:
        """Return the modification time of a file in milliseconds since 1970."""

    def used_ratio(self, path: Path) -> float:
        """Return the used part of the file system that holds `path`, from 0 to 1, without blocks reserved for root."""


class RealFile:
    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags, 0o644)
        # The kernel reports a write-back error once per descriptor: concurrent syncs need a descriptor each, or one
        # of them could succeed although its data is lost.
        self._idle_descriptors: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._idle_descriptors.put(self._descriptor)
        self._view: memoryview | None = None
        self.lacks_cached_reads = not _NO_WAIT

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def read_into(self, offset: int, target: memoryview) -> int:
        return os.preadv(self._descriptor, (target,), offset)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        if self.lacks_cached_reads:
            return None
        data = bytearray(size)
        try:
            count = os.preadv(self._descriptor, (data,), offset, _NO_WAIT)
        except OSError as error:
            # Other errors will be raised by the blocking read that follows.
            self.lacks_cached_reads = error.errno in _UNSUPPORTED
            return None
        return bytes(data) if count == size else None

    def prefetch(self, offset: int, size: int) -> None:
        end, null = offset + size, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # sendfile to /dev/null reads the pages without copying them to user space.
            while offset < end and (sent := os.sendfile(null, self._descriptor, offset, end - offset)):
                offset += sent
        except OSError as error:
            if error.errno not in _NOT_SENDABLE:
                raise
            for at in range(offset, end, _CHUNK_SIZE):
                self.read(at, min(_CHUNK_SIZE, end - at))
        finally:
            os.close(null)

    def view(self) -> memoryview | None:
        if self._view is None:
            try:
                self._view = memoryview(mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ))
            except (OSError, ValueError):
                # The address space is exhausted, or the file is empty.
                return None
        return self._view

    def write(self, offset: int, data: bytes) -> None:
        written = os.pwrite(self._descriptor, data, offset)
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], offset + written)

    def sync(self) -> None:
        descriptor = self._sync_descriptor()
        try:
            os.fdatasync(descriptor)
        finally:
            self._idle_descriptors.put(descriptor)

    def begin_sync(self, syncs: AioFsync, callback: SyncCallback) -> bool:
        try:
            descriptor = self._idle_descriptors.get_nowait()
        except queue.Empty:
            # Opening one may block. The caller then calls `sync` in a thread, which adds a descriptor for the next.
            return False

        def complete(error: OSError | None) -> None:
            self._idle_descriptors.put(descriptor)
            callback(error)

        try:
            syncs.begin(descriptor, complete)
        except OSError:
            self._idle_descriptors.put(descriptor)
            return False
        return True

    def _sync_descriptor(self) -> int:
        try:
            return self._idle_descriptors.get_nowait()
        except queue.Empty:
            try:
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                # The file was removed, or no descriptors are left: wait for another sync to finish.
                return self._idle_descriptors.get()

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def data_end(self) -> int:
        end = 0
        try:
            for _ in range(_HOLES_MAX):
                end = os.lseek(self._descriptor, os.lseek(self._descriptor, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return end
        # Too many holes, or the file system does not support SEEK_DATA.
        return self.size()

    def close(self) -> None:
        # The map lives on while views of it are in use.
        self._view = None
        os.close(self._descriptor)
        while not self._idle_descriptors.empty():
            descriptor = self._idle_descriptors.get()
            if descriptor != self._descriptor:
                os.close(descriptor)


class RealDisk:
    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _mode(path))
            file.write(data)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_back(self, path: Path) -> None:
        call = _syncfs()
        if call is not None:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                # The result does not matter: the syncs that follow report errors file by file.
                call(descriptor)
            finally:
                os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        return RealFile(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        try:
            path.mkdir()
        except FileExistsError:
            return
        except FileNotFoundError:
            self.make_directory(path.parent, is_durable=is_durable)
            path.mkdir(exist_ok=True)
        if is_durable:
            self.sync(path.parent)

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def modified_millis(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def used_ratio(self, path: Path) -> float:
        disk = os.statvfs(path)
        used = disk.f_blocks - disk.f_bfree
        # Some file systems report a size of zero.
        return used / (used + disk.f_bavail) if used + disk.f_bavail else 0.0


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    """Return syncfs(2) of the C library, or None on platforms without it."""
    return getattr(ctypes.CDLL(None), "syncfs", None)


def _mode(path: Path) -> int:
    """Return the permissions of the file that `path` is, will replace, or is the backup of."""
    base = path.with_name(path.name.removesuffix(TEMPORARY_SUFFIX).removesuffix(BACKUP_SUFFIX))
    try:
        return base.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o644


def replace_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a small file atomically and durably: after a crash it has the old content or the new.

    The previous content is kept in a file with the suffix `.bak`, as in RocketMQ.
    """
    previous = disk.read(path)
    if previous is not None:
        write_whole(disk, path.with_name(path.name + BACKUP_SUFFIX), previous)
    write_whole(disk, path, data)


def write_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a small file atomically and durably, without a backup of the previous content."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    disk.write(temporary, data)
    disk.sync(temporary)
    disk.rename(temporary, path)
    disk.sync(path.parent)
