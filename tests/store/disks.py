"""A disk in memory that can stop, fail and lose unsynced writes; it passes the same tests as the real one."""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Union

from kerolox.runtime.aio_fsync import AioFsync, SyncCallback

SECTOR_SIZE = 512


class Stopped(BaseException):
    """The machine has stopped. A BaseException, so that the code under test does not catch it."""


@dataclass(slots=True)
class Change:
    """One change of a file: bytes at an offset, a new size, or both."""

    offset: int = 0
    data: bytes = b""
    size: int | None = None


@dataclass(slots=True, eq=False)
class Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    modified_millis: int = 0

    def change(self, change: Change) -> None:
        _apply(self.content, change, with_size=True)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change, with_size=True)
        self.pending.clear()


@dataclass(slots=True, eq=False)
class Directory:
    names: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)
    pending: list[dict[str, "Node | None"]] = field(default_factory=list)

    def change(self, names: dict[str, "Node | None"]) -> None:
        _apply_names(self.names, names)
        self.pending.append(names)

    def sync(self) -> None:
        for names in self.pending:
            _apply_names(self.durable, names)
        self.pending.clear()


Node = Union[Inode, Directory]  # noqa: UP007


class SimulatedDisk:
    """Counts all calls in `counts`, and all changes and syncs in `operations`."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root or Directory()
        self.counts: Counter[str] = Counter()
        self.operations = 0
        # The machine stops after this number of operations, halfway through the next if that is a write.
        self.stop_after: int | None = None
        # Most bytes of all files together.
        self.capacity: int | None = None
        self.open_count = 0
        # Whether the disk cannot tell what is in the page cache. If it can, a failing "read_cached" means not cached.
        self.lacks_cached_reads = False
        # The clock for modification times.
        self.millis: Callable[[], int] = lambda: 1_700_000_000_000
        self._failures: list[Callable[[str, Path, int], int | None]] = []

    # Controls for tests

    def fail(self, kinds: str, error: int, *, at: int = 0, count: int = 10**9, inside: str = "") -> None:
        """Make `count` operations of these kinds (separated by blanks) fail, after the first `at`."""
        seen = 0

        def failure(kind: str, path: Path, _: int) -> int | None:
            nonlocal seen
            if kind not in kinds.split() or inside not in str(path):
                return None
            seen += 1
            return error if at < seen <= at + count else None

        self._failures.append(failure)

    def fail_operation(self, number: int, error: int) -> None:
        """Make the operation with this number fail, whatever it is."""
        self._failures.append(lambda _kind, _path, operation: error if operation == number else None)

    def heal(self) -> None:
        self._failures.clear()

    def after_kill(self) -> "SimulatedDisk":
        """Return the disk after the process was killed: with all its writes."""
        return self._new_disk(_copy(self.root, lambda inode: inode.content, lambda directory: directory.names))

    def after_power_cut(self, seed: int = 0, count: int = 4) -> Iterator["SimulatedDisk"]:
        """Yield possible disks after a power cut: without unsynced writes, then with random parts of them."""
        yield self._new_disk(_copy(self.root, lambda inode: inode.durable, lambda directory: directory.durable))
        for number in range(count):
            chance = random.Random(seed * 1000 + number)
            share = chance.choice((0.1, 0.5, 0.9))
            yield self._new_disk(
                _copy(
                    self.root,
                    partial(_torn, chance=chance, share=share),
                    partial(_some_names, chance=chance),
                )
            )

    def content(self, path: Path) -> bytes:
        inode = self._find(path)
        assert isinstance(inode, Inode)
        return bytes(inode.content)

    def save(self, path: Path) -> None:
        """Copy all files into a real directory."""
        _save(self.root, path)

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        """Change bytes durably, without counting an operation."""
        inode = self._find(path)
        assert isinstance(inode, Inode)
        inode.content[offset : offset + len(data)] = data
        inode.durable[:] = inode.content
        inode.pending.clear()

    # The Disk interface

    def read(self, path: Path) -> bytes | None:
        self._count_read("read", path)
        try:
            inode = self._find(path)
        except FileNotFoundError:
            return None
        assert isinstance(inode, Inode)
        return bytes(inode.content)

    def write(self, path: Path, data: bytes) -> None:
        self._change("write", path)
        inode = self._directory(path).names.get(path.name)
        if not isinstance(inode, Inode):
            inode = Inode()
            self._directory(path).change({path.name: inode})
        inode.change(Change(size=0))
        inode.change(Change(0, data, len(data)))
        inode.modified_millis = self.millis()

    def sync(self, path: Path) -> None:
        node = self._find(path)
        self._change("sync", path, lambda: node.pending.clear() if isinstance(node, Inode) else None)
        node.sync()

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", source)
        assert source.parent == target.parent
        node = self._find(source)
        self._directory(source).change({source.name: None, target.name: node})

    def open(self, path: Path, *, create: bool = False) -> "SimulatedFile":
        directory = self._directory(path)
        node = directory.names.get(path.name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self._change("open", path)
            node = Inode(modified_millis=self.millis())
            directory.change({path.name: node})
        else:
            self._count_read("open", path)
        if not isinstance(node, Inode):
            raise _error(errno.EISDIR, path)
        self.open_count += 1
        return SimulatedFile(self, path, node)

    def write_back(self, path: Path) -> None:
        self._count_read("write_back", path)

    def remove(self, path: Path) -> None:
        self._find(path)
        self._change("remove", path)
        self._directory(path).change({path.name: None})

    def remove_directory(self, path: Path) -> None:
        node = self._find(path)
        assert isinstance(node, Directory)
        if node.names:
            raise _error(errno.ENOTEMPTY, path)
        self._change("remove_directory", path)
        self._directory(path).change({path.name: None})

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        directory = self.root
        for part in path.parts[1:]:
            node = directory.names.get(part)
            if node is None:
                self._change("make_directory", path)
                node = Directory()
                directory.change({part: node})
            assert isinstance(node, Directory)
            directory = node

    def names(self, directory: Path) -> list[str]:
        self._count_read("names", directory)
        try:
            node = self._find(directory)
        except FileNotFoundError:
            return []
        assert isinstance(node, Directory)
        return sorted(node.names)

    def modified_millis(self, path: Path) -> int:
        self._count_read("stat", path)
        inode = self._find(path)
        assert isinstance(inode, Inode)
        return inode.modified_millis

    def used_ratio(self, path: Path) -> float:
        self._find(path)
        return self._used() / self.capacity if self.capacity else 0.0

    # Implementation

    def _new_disk(self, root: Directory) -> "SimulatedDisk":
        left = SimulatedDisk(root)
        left.millis = self.millis
        return left

    def _find(self, path: Path) -> Node:
        node: Node = self.root
        for part in path.parts[1:]:
            if not isinstance(node, Directory) or part not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[part]
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._find(path.parent)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def _count_read(self, kind: str, path: Path) -> None:
        """Count an operation that changes nothing, so that stopping there makes no difference."""
        self._check_running()
        self.counts[kind] += 1
        self._fail_if_requested(kind, path, -1)

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        self._check_running()
        if self.operations == self.stop_after:
            self.operations += 1
            if kind != "sync":
                halfway()
            raise Stopped
        self.operations += 1
        self.counts[kind] += 1
        try:
            self._fail_if_requested(kind, path, self.operations - 1)
        except OSError:
            halfway()
            raise

    def _check_running(self) -> None:
        if self.stop_after is not None and self.operations > self.stop_after:
            raise Stopped

    def _fail_if_requested(self, kind: str, path: Path, operation: int) -> None:
        for failure in self._failures:
            number = failure(kind, path, operation)
            if number is not None:
                raise _error(number, path)

    def _check_room(self, path: Path, inode: Inode, size: int) -> None:
        growth = size - len(inode.content)
        if self.capacity is not None and growth > 0 and self._used() + growth > self.capacity:
            raise _error(errno.ENOSPC, path)

    def _used(self) -> int:
        return sum(len(inode.content) for inode in _inodes(self.root))


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, path: Path, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._is_open = True

    def read(self, offset: int, size: int) -> bytes:
        self._check_open()
        self._disk._count_read("read", self.path)
        return bytes(self._inode.content[offset : offset + size])

    def read_into(self, offset: int, target: memoryview) -> int:
        data = self.read(offset, len(target))
        target[: len(data)] = data
        return len(data)

    @property
    def lacks_cached_reads(self) -> bool:
        return self._disk.lacks_cached_reads

    def read_cached(self, offset: int, size: int) -> bytes | None:
        self._check_open()
        try:
            self._disk._count_read("read_cached", self.path)
        except OSError:
            return None
        data = bytes(self._inode.content[offset : offset + size])
        return None if self._disk.lacks_cached_reads or len(data) < size else data

    def prefetch(self, offset: int, size: int) -> None:
        self.read(offset, size)

    def view(self) -> memoryview | None:
        self._check_open()
        try:
            self._disk._count_read("view", self.path)
        except OSError:
            return None
        # While the view exists, resizing the file raises BufferError.
        return memoryview(self._inode.content).toreadonly() if self._inode.content else None

    def write(self, offset: int, data: bytes) -> None:
        self._check_open()
        self._disk._change("write", self.path, lambda: self._write(offset, data[: len(data) // 2]))
        self._disk._check_room(self.path, self._inode, offset + len(data))
        self._write(offset, data)

    def sync(self) -> None:
        self._check_open()
        # After a failed fsync the kernel may mark pages as clean although they were never written.
        self._disk._change("sync", self.path, self._inode.pending.clear)
        self._inode.sync()

    def begin_sync(self, syncs: AioFsync, ended: SyncCallback) -> bool:
        return False

    def allocate(self, size: int) -> None:
        self._check_open()
        self._disk._change("allocate", self.path, lambda: self._grow(size // 2))
        self._disk._check_room(self.path, self._inode, size)
        self._grow(size)

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk._change("truncate", self.path)
        self._inode.change(Change(size=size))
        self._inode.modified_millis = self._disk.millis()

    def size(self) -> int:
        self._check_open()
        self._disk._count_read("size", self.path)
        return len(self._inode.content)

    def data_end(self) -> int:
        self._check_open()
        self._disk._count_read("data_end", self.path)
        # Like a file system, data is known by whole sectors.
        end = len(self._inode.content.rstrip(b"\0"))
        return min(len(self._inode.content), -(-end // SECTOR_SIZE) * SECTOR_SIZE)

    def close(self) -> None:
        self._check_open()
        self._is_open = False
        self._disk.open_count -= 1

    def _write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        self._inode.change(Change(offset, bytes(data), end if end > len(self._inode.content) else None))
        self._inode.modified_millis = self._disk.millis()

    def _grow(self, size: int) -> None:
        if size > len(self._inode.content):
            self._inode.change(Change(size=size))
            self._inode.modified_millis = self._disk.millis()

    def _check_open(self) -> None:
        if not self._is_open:
            raise _error(errno.EBADF, self.path)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _apply(content: bytearray, change: Change, *, with_size: bool) -> None:
    if change.size is not None and with_size:
        if change.size < len(content):
            del content[change.size :]
        else:
            content.extend(bytes(change.size - len(content)))
    data = change.data[: max(0, len(content) - change.offset)]
    content[change.offset : change.offset + len(data)] = data


def _apply_names(names: dict[str, Node], changes: dict[str, Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _copy(
    directory: Directory,
    content: Callable[[Inode], bytearray],
    names: Callable[[Directory], dict[str, Node]],
) -> Directory:
    """Return a copy in which everything is durable."""
    copied: dict[str, Node] = {}
    for name, node in sorted(names(directory).items()):
        if isinstance(node, Directory):
            copied[name] = _copy(node, content, names)
        else:
            data = content(node)
            copied[name] = Inode(bytearray(data), bytearray(data), modified_millis=node.modified_millis)
    return Directory(copied, dict(copied))


def _torn(inode: Inode, chance: random.Random, share: float) -> bytearray:
    """Return content in which only some writes arrived, and some of those only in part.

    Sizes are journaled by the file system and change in order: after a lost size change, later ones are lost, too.
    """
    content = bytearray(inode.durable)
    sizes = sum(change.size is not None for change in inode.pending)
    sizes_kept = chance.randint(0, sizes)
    for change in inode.pending:
        with_size = change.size is not None and sizes_kept > 0
        if with_size:
            sizes_kept -= 1
        pieces = [change] if chance.random() < share else []
        if pieces and chance.random() < 0.4:
            pieces = list(_pieces(change, chance))
        _apply(content, Change(size=change.size), with_size=with_size)
        for piece in pieces:
            _apply(content, piece, with_size=False)
    return content


def _pieces(change: Change, chance: random.Random) -> Iterator[Change]:
    """Yield parts of a write: its first bytes, or some of its sectors."""
    if chance.random() < 0.5:
        yield Change(change.offset, change.data[: chance.randint(0, len(change.data))])
        return
    end = change.offset + len(change.data)
    at = change.offset
    while at < end:
        next_at = min(end, (at // SECTOR_SIZE + 1) * SECTOR_SIZE)
        if chance.random() < 0.5:
            yield Change(at, change.data[at - change.offset : next_at - change.offset])
        at = next_at


def _some_names(directory: Directory, chance: random.Random) -> dict[str, Node]:
    names = dict(directory.durable)
    for changes in directory.pending[: chance.randint(0, len(directory.pending))]:
        _apply_names(names, changes)
    return names


def _inodes(directory: Directory) -> Iterator[Inode]:
    for node in directory.names.values():
        if isinstance(node, Directory):
            yield from _inodes(node)
        else:
            yield node


def _save(directory: Directory, path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            _save(node, path / name)
        else:
            (path / name).write_bytes(node.content)
