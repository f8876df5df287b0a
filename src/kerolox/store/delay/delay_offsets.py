"""Delivery progress of each delay level: config/delayOffset.json."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.text import fastjson
from kerolox.runtime.threads import in_thread
from kerolox.store.tables import DELAY_OFFSET, JsonTable
from kerolox.wire.bodies.topics import DataVersion


class DelayOffsetTable(msgspec.Struct, rename="camel"):
    """The content of the file. 4.9 writes no version, but reads files with one."""

    data_version: DataVersion | None = None
    # Delay level → queue offset of the next message to deliver.
    offset_table: dict[int, int] = {}


class DelayOffsets:
    """Offsets in memory and on disk, in Java's format."""

    def __init__(self, root: Path, clock: Clock, disk: Disk) -> None:
        self._clock = clock
        self._file = JsonTable(disk, root / "config" / DELAY_OFFSET, DelayOffsetTable)
        self._offsets: dict[int, int] = {}
        self._version = DataVersion()
        self._is_changed = False
        self._saving = asyncio.Lock()

    def load(self) -> None:
        """Read the file; StoreDamaged if neither it nor its backup can be read."""
        self._load_table(self._file.load() or DelayOffsetTable())

    def _load_table(self, table: DelayOffsetTable) -> None:
        self._offsets = dict(table.offset_table)
        self._version = table.data_version or DataVersion()
        self._is_changed = False

    def get(self, level: int) -> int:
        return self._offsets.get(level, 0)

    def set_offset(self, level: int, offset: int) -> None:
        if self.get(level) != offset:
            self._offsets[level] = offset
            self._is_changed = True

    def table(self) -> DelayOffsetTable:
        """Return a copy of the offsets, with a new version if they have changed."""
        if self._is_changed:
            self._version = DataVersion(self._version.counter + 1, self._version.state_version, self._clock.millis())
            self._is_changed = False
        return DelayOffsetTable(self._version, dict(sorted(self._offsets.items())))

    def encode(self) -> bytes:
        """Return the response body of GET_ALL_DELAY_OFFSET."""
        return fastjson.encode(self.table())

    def replace(self, content: bytes) -> None:
        """Replace the offsets by the response of another broker; ProtocolError, and no change, if it is malformed."""
        self._load_table(fastjson.decode(content, DelayOffsetTable))

    def follow(self, offsets: Mapping[int, int]) -> bool:
        """Take over the progress of a master; return whether anything has changed."""
        for level, offset in offsets.items():
            self.set_offset(level, offset)
        return self._is_changed

    async def persist(self) -> None:
        """Write the file if the offsets have changed; OSError if it cannot be written."""
        async with self._saving:
            await in_thread(self._file.save, self._file.encode(self.table()))
