"""The one place where bytes reach the disk, so that tests can record, fail and tear what is written."""

import os
from pathlib import Path
from typing import Protocol

BACKUP_SUFFIX = ".bak"
TEMPORARY_SUFFIX = ".tmp"


class Disk(Protocol):
    """The primitive operations; each one is a point at which a machine may stop."""

    def read(self, path: Path) -> bytes | None:
        """Returns the whole file, or None if there is none."""

    def write(self, path: Path, data: bytes) -> None:
        """Creates or truncates the file and writes `data`; nothing is durable yet."""

    def sync(self, path: Path) -> None:
        """Makes what was written to a file, or the names in a directory, survive a power cut."""

    def rename(self, source: Path, target: Path) -> None: ...


class RealDisk:
    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)


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
