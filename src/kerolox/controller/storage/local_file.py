"""The storage of a single controller: one JSON file, replaced atomically and durably with every change."""

import asyncio
import fcntl
import logging
import os
from pathlib import Path

import msgspec

from kerolox.controller.storage.storage import ABSENT, Leadership, StorageUnavailable, Stored, VersionConflict
from kerolox.errors import ConfigurationError, reason
from kerolox.runtime.files import Disk, write_whole
from kerolox.runtime.threads import in_thread

log = logging.getLogger(__name__)

FILE_NAME = "groups.json"
LOCK_NAME = "lock"
FORMAT = 1


class _Entry(msgspec.Struct):
    version: int
    value: msgspec.Raw


class _Content(msgspec.Struct):
    format: int
    groups: dict[str, _Entry]


class LocalFile:
    """Values in memory and in `groups.json` of a directory that one controller at a time may use.

    Every change writes the whole file: it holds a few hundred bytes per broker group, and changes are rare.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._path = directory / FILE_NAME
        self._groups: dict[str, Stored] = {}
        self._writing = asyncio.Lock()
        self._lock_descriptor: int | None = None

    async def open(self) -> None:
        try:
            await in_thread(self._open)
        except OSError as error:
            raise ConfigurationError(
                f"controllerStorePath={self._directory} cannot be used: {reason(error)}"
            ) from error

    def _open(self) -> None:
        self._disk.make_directory(self._directory)
        self._lock()
        content = self._disk.read(self._path)
        if content is None:
            return
        try:
            decoded = msgspec.json.decode(content, type=_Content)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            # Starting empty would restart epochs and forget which brokers hold the acknowledged messages.
            raise ConfigurationError(
                f"{self._path} is damaged ({error}); restore it from a backup, or move it away to start anew, which "
                "loses the sync state sets"
            ) from error
        if decoded.format != FORMAT:
            raise ConfigurationError(f"{self._path} has format {decoded.format}; this release reads {FORMAT}")
        self._groups = {name: Stored(bytes(entry.value), entry.version) for name, entry in decoded.groups.items()}

    def _lock(self) -> None:
        descriptor = os.open(self._directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigurationError(
                f"controllerStorePath={self._directory} is in use by another controller; give each its own directory, "
                "or use controllerStorage=etcd for several controllers"
            ) from None
        self._lock_descriptor = descriptor

    async def close(self) -> None:
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    async def load(self) -> dict[str, Stored]:
        return dict(self._groups)

    async def read(self, name: str) -> Stored | None:
        return self._groups.get(name)

    async def replace(self, name: str, value: bytes, version: int) -> int:
        async with self._writing:
            current = self._groups.get(name)
            if (ABSENT if current is None else current.version) != version:
                raise VersionConflict(f"the value of {name!r} has changed since version {version}")
            groups = self._groups | {name: Stored(value, version + 1)}
            try:
                await in_thread(self._write, groups)
            except OSError as error:
                # Nobody was told the new value. If it did reach the disk, the next change overwrites it.
                log.exception("%s cannot be written", self._path)
                raise StorageUnavailable(f"{self._path} cannot be written: {reason(error)}") from error
            self._groups = groups
            return version + 1

    def _write(self, groups: dict[str, Stored]) -> None:
        entries = {name: _Entry(stored.version, msgspec.Raw(stored.value)) for name, stored in groups.items()}
        write_whole(self._disk, self._path, msgspec.json.encode(_Content(FORMAT, entries)))

    async def campaign(self, leader_id: str, address: str) -> Leadership:
        return Leadership(True, leader_id, address)

    async def resign(self) -> None:
        pass
