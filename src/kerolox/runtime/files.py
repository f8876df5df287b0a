"""The one place where bytes reach the disk, so that tests can record, fail and tear what is written."""

import ctypes
import errno
import functools
import mmap
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kerolox.runtime.kernel_syncs import Ended, KernelSyncs

BACKUP_SUFFIX = ".bak"
TEMPORARY_SUFFIX = ".tmp"

_HOLES_MAX = 1000
# Asks for what needs no wait. Only Linux knows it, and not of every file system.
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
_NOT_SENDABLE = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP, errno.ENOTSUP))
_CHUNK_SIZE = 1024 * 1024
_UNSUPPORTED = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS))


class File(Protocol):
    """An open file, written and read at offsets. Reading past its end gives less than was asked for."""

    path: Path

    @property
    def is_silent(self) -> bool:
        """Whether this disk is known not to tell what is in memory."""

    def read(self, offset: int, size: int) -> bytes: ...

    def read_into(self, offset: int, target: memoryview) -> int:
        """Reads as much as there is room for, and returns how much it was."""

    def read_cached(self, offset: int, size: int) -> bytes | None:
        """Returns the same if all of it is in memory; None if it may have to come from the disk."""

    def bring(self, offset: int, size: int) -> None:
        """Has these bytes brought to memory; OSError if the disk does not give one of them."""

    def view(self) -> memoryview | None:
        """Returns the whole file as it is and as it changes, to be read only; None where that cannot be had.

        It must have its full size, and keep it: reading what was cut off since ends the process.
        """

    def write(self, offset: int, data: bytes) -> None:
        """Writes all of `data`, or raises OSError; how much of it is there then is anybody's guess."""

    def sync(self) -> None:
        """Makes what was written survive a power cut. Once it has failed, it must not be trusted again."""

    def begin_sync(self, syncs: KernelSyncs, ended: Ended) -> bool:
        """Begins to do the same, and has it told how it ended; False, and nothing is told, where that cannot be had."""

    def allocate(self, size: int) -> None:
        """Makes the file `size` bytes long, with room for all of them; OSError if the disk has none."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def data_end(self) -> int:
        """Returns an offset from which on there are only zeros, as none of it was ever written; or the size.

        What was read since counts as written for a while, so that this is to be asked first.
        """

    def close(self) -> None: ...


class Disk(Protocol):
    """The primitive operations; each one that changes something is a point at which a machine may stop."""

    def read(self, path: Path) -> bytes | None:
        """Returns the whole file, or None if there is none."""

    def write(self, path: Path, data: bytes) -> None:
        """Creates or truncates the file and writes `data`; nothing is durable yet."""

    def sync(self, path: Path) -> None:
        """Makes what was written to a file, or the names in a directory, survive a power cut."""

    def write_back(self, path: Path) -> None:
        """Has the disk that holds `path` write what it would write later, so that many syncs that follow cost little.

        It promises nothing, and does nothing where it is not known how.
        """

    def rename(self, source: Path, target: Path) -> None: ...

    def open(self, path: Path, *, create: bool = False) -> File:
        """Opens for reading and writing; FileNotFoundError if it is not there and not to be created."""

    def remove(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None:
        """Removes a directory with nothing in it; OSError if there is something."""

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        """Makes the directory and what is missing above it; unless told otherwise, so that they survive a power cut."""

    def names(self, directory: Path) -> list[str]:
        """Returns what is in a directory, sorted; nothing if there is no such directory."""

    def modified_millis(self, path: Path) -> int:
        """Returns when a file was last written to, as wall-clock time."""

    def used_ratio(self, path: Path) -> float:
        """Returns how full the disk is that holds `path`, from 0 to 1; what only root may use counts as neither."""


class RealFile:
    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags, 0o644)
        # An error of the disk is told once to each descriptor, so that syncs at the same time need one each.
        self._to_sync: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._to_sync.put(self._descriptor)
        self._view: memoryview | None = None
        self.is_silent = not _NO_WAIT

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def read_into(self, offset: int, target: memoryview) -> int:
        return os.preadv(self._descriptor, (target,), offset)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        if self.is_silent:
            return None
        data = bytearray(size)
        try:
            count = os.preadv(self._descriptor, (data,), offset, _NO_WAIT)
        except OSError as error:
            # Whatever else is wrong is said by who reads it in earnest.
            self.is_silent = error.errno in _UNSUPPORTED
            return None
        return bytes(data) if count == size else None

    def bring(self, offset: int, size: int) -> None:
        end, nowhere = offset + size, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # What is sent there is read, and not copied.
            while offset < end and (sent := os.sendfile(nowhere, self._descriptor, offset, end - offset)):
                offset += sent
        except OSError as error:
            if error.errno not in _NOT_SENDABLE:
                raise
            for at in range(offset, end, _CHUNK_SIZE):
                self.read(at, min(_CHUNK_SIZE, end - at))
        finally:
            os.close(nowhere)

    def view(self) -> memoryview | None:
        if self._view is None:
            try:
                self._view = memoryview(mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ))
            except (OSError, ValueError):
                # There is no room for it in memory, or the file is empty.
                return None
        return self._view

    def write(self, offset: int, data: bytes) -> None:
        written = os.pwrite(self._descriptor, data, offset)
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], offset + written)

    def sync(self) -> None:
        descriptor = self._one_to_sync()
        try:
            os.fdatasync(descriptor)
        finally:
            self._to_sync.put(descriptor)

    def begin_sync(self, syncs: KernelSyncs, ended: Ended) -> bool:
        try:
            descriptor = self._to_sync.get_nowait()
        except queue.Empty:
            # One is opened in a thread, and then there is one more.
            return False

        def end(error: OSError | None) -> None:
            self._to_sync.put(descriptor)
            ended(error)

        try:
            syncs.begin(descriptor, end)
        except OSError:
            self._to_sync.put(descriptor)
            return False
        return True

    def _one_to_sync(self) -> int:
        try:
            return self._to_sync.get_nowait()
        except queue.Empty:
            try:
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                # It has no name any more, or there are no descriptors left: who came first will be done.
                return self._to_sync.get()

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
        # It has too many holes, or this disk does not tell.
        return self.size()

    def close(self) -> None:
        # Whoever still reads what it showed may go on.
        self._view = None
        os.close(self._descriptor)
        while not self._to_sync.empty():
            descriptor = self._to_sync.get()
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
                # Whatever comes of it, the syncs that follow tell what became of each file.
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
        # Some file systems do not say how large they are.
        return used / (used + disk.f_bavail) if used + disk.f_bavail else 0.0


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    """Returns the call of the C library that has one file system write all it has in memory; only Linux knows it."""
    return getattr(ctypes.CDLL(None), "syncfs", None)


def _mode(path: Path) -> int:
    """Returns the permissions of the file that this one is, will be, or is the backup of."""
    base = path.with_name(path.name.removesuffix(TEMPORARY_SUFFIX).removesuffix(BACKUP_SUFFIX))
    try:
        return base.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o644


def replace_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Replaces a small file so that a crash at any point leaves the old content or the new, whole.

    The previous content stays beside it with the suffix `.bak`, as RocketMQ keeps it.
    """
    previous = disk.read(path)
    if previous is not None:
        _write_whole(disk, path.with_name(path.name + BACKUP_SUFFIX), previous)
    _write_whole(disk, path, data)


def _write_whole(disk: Disk, path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    disk.write(temporary, data)
    disk.sync(temporary)
    disk.rename(temporary, path)
    disk.sync(path.parent)
