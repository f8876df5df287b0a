"""Atomic replacement of small files, and concurrent syncs of one file."""

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from kerolox.runtime.files import Disk, RealDisk, replace_whole

TARGET = Path("/data/kvConfig.json")
BACKUP = Path("/data/kvConfig.json.bak")


class Stopped(Exception):
    """The simulated machine has stopped."""


@dataclass
class File:
    """The content of a file, and the part of it that survives a power cut."""

    content: bytes
    durable: bytes = b""


class FragileDisk:
    """An in-memory disk that stops after `operations` operations; a write in progress is torn."""

    def __init__(self, files: dict[Path, bytes], *, operations: int = 1_000_000) -> None:
        self.operations = operations
        self.log: list[str] = []
        self._names = {path: File(content, content) for path, content in files.items()}
        self._durable_names = dict(self._names)

    def read(self, path: Path) -> bytes | None:
        return self.files.get(path)

    def write(self, path: Path, data: bytes) -> None:
        self._names[path] = File(data[: len(data) // 2])
        self._step(f"write {path.name}")
        self._names[path].content = data

    def sync(self, path: Path) -> None:
        self._step(f"sync {path.name}")
        if path in self._names:
            self._names[path].durable = self._names[path].content
        else:
            self._durable_names = dict(self._names)

    def rename(self, source: Path, target: Path) -> None:
        self._step(f"rename {source.name} {target.name}")
        self._names[target] = self._names.pop(source)

    @property
    def files(self) -> dict[Path, bytes]:
        """The files as a reader sees them, also after the process was killed."""
        return {path: file.content for path, file in self._names.items()}

    def after_power_cut(self) -> list[dict[Path, bytes]]:
        """Names that were not synced may have reached the disk or not; content that was not synced is lost."""
        return [{path: file.durable for path, file in names.items()} for names in (self._durable_names, self._names)]

    def _step(self, what: str) -> None:
        if not self.operations:
            raise Stopped
        self.operations -= 1
        self.log.append(what)


def replace(disk: FragileDisk, data: bytes) -> None:
    """Call `replace_whole`; FragileDisk has only the operations of `Disk` that it uses."""
    replace_whole(cast("Disk", disk), TARGET, data)


def test_content_is_synced_before_the_rename_and_the_directory_after() -> None:
    disk = FragileDisk({TARGET: b"old"})

    replace(disk, b"new")

    assert disk.log == [
        "write kvConfig.json.bak.tmp",
        "sync kvConfig.json.bak.tmp",
        "rename kvConfig.json.bak.tmp kvConfig.json.bak",
        "sync data",
        "write kvConfig.json.tmp",
        "sync kvConfig.json.tmp",
        "rename kvConfig.json.tmp kvConfig.json",
        "sync data",
    ]
    assert disk.files == {TARGET: b"new", BACKUP: b"old"}


@pytest.mark.parametrize("operations", range(9))
@pytest.mark.parametrize(
    "before", [{TARGET: b"old one"}, {TARGET: b"old one", BACKUP: b"older"}], ids=["old", "old+bak"]
)
def test_a_crash_after_any_operation_leaves_the_old_or_the_new_content(
    before: dict[Path, bytes], operations: int
) -> None:
    disk = FragileDisk(before, operations=operations)

    try:
        replace(disk, b"new one")
        assert operations == 8
    except Stopped:
        pass

    for left in (disk.files, *disk.after_power_cut()):
        content, backup = left[TARGET], left.get(BACKUP)
        assert content in {b"old one", b"new one"}
        # The backup is complete: the previous content, or already the current one after a stop in between.
        assert backup in ({b"old one"} if content == b"new one" else {b"old one", before.get(BACKUP)})


@pytest.mark.parametrize("operations", range(5))
def test_a_crash_during_the_first_write_leaves_no_file_or_a_complete_one(operations: int) -> None:
    disk = FragileDisk({}, operations=operations)

    with contextlib.suppress(Stopped):
        replace(disk, b"new one")

    for left in (disk.files, *disk.after_power_cut()):
        assert left.get(TARGET) in {None, b"new one"}
        assert BACKUP not in left


@pytest.mark.parametrize("operations", range(9))
def test_leftovers_of_a_crash_do_not_affect_the_next_replacement(operations: int) -> None:
    disk = FragileDisk({TARGET: b"old one"}, operations=operations)
    with contextlib.suppress(Stopped):
        replace(disk, b"new one")
    after = FragileDisk(disk.files)
    previous = after.files[TARGET]

    replace(after, b"newest")

    assert (after.files[TARGET], after.files[BACKUP]) == (b"newest", previous)


def test_a_replacement_is_durable_when_it_returns() -> None:
    disk = FragileDisk({TARGET: b"old"})

    replace(disk, b"new")

    for left in disk.after_power_cut():
        assert (left[TARGET], left[BACKUP]) == (b"new", b"old")


def test_replacing_a_file_on_a_real_disk_keeps_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    for content in (b"first", b"second", b"third"):
        replace_whole(RealDisk(), path, content)

    assert path.read_bytes() == b"third"
    assert (tmp_path / "kvConfig.json.bak").read_bytes() == b"second"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["kvConfig.json", "kvConfig.json.bak"]


def test_reading_a_missing_file_returns_none(tmp_path: Path) -> None:
    assert RealDisk().read(tmp_path / "missing") is None


def test_a_view_shows_later_writes_and_outlives_the_file(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(tmp_path / "00000000000000000000", create=True)
    assert file.view() is None
    file.allocate(8192)
    view = file.view()
    assert view is not None

    file.write(4096, b"later")
    file.close()
    disk.remove(file.path)

    assert bytes(view[4096:4101]) == b"later"
    assert view.readonly


def test_missing_parent_directories_are_made(tmp_path: Path) -> None:
    disk = RealDisk()

    disk.make_directory(tmp_path / "a" / "b" / "c")
    disk.make_directory(tmp_path / "a" / "b" / "d", is_durable=False)
    disk.make_directory(tmp_path / "a" / "b" / "c")

    assert disk.names(tmp_path / "a" / "b") == ["c", "d"]


def test_write_back_does_not_change_content(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.write(tmp_path / "file", b"content")

    disk.write_back(tmp_path)

    assert disk.read(tmp_path / "file") == b"content"


def test_concurrent_syncs_use_different_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a write-back error once per descriptor: one sync must not take it from another."""
    file = RealDisk().open(tmp_path / "file", create=True)
    both = threading.Barrier(2, timeout=20)
    used: list[int] = []

    def fdatasync(descriptor: int) -> None:
        used.append(descriptor)
        both.wait()

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with ThreadPoolExecutor(2) as threads:
        for _ in range(2):
            for future in [threads.submit(file.sync) for _ in range(2)]:
                future.result()

    assert len(set(used[:2])) == 2
    assert sorted(used[2:]) == sorted(used[:2])
    file.close()
    for descriptor in used:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_sync_that_cannot_open_a_descriptor_waits_for_a_free_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    (tmp_path / "file").unlink()
    used: list[int] = []
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def fdatasync(descriptor: int) -> None:
        begun.release()
        assert may_end.acquire(timeout=20)
        used.append(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with ThreadPoolExecutor(2) as threads:
        syncs = [threads.submit(file.sync) for _ in range(2)]
        assert begun.acquire(timeout=20)
        may_end.release(2)
        for sync in syncs:
            sync.result()

    assert len(used) == 2
    assert len(set(used)) == 1
    file.close()
