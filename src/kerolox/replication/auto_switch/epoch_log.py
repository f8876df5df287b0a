"""The epochs of a store, in memory and in its file (EpochFileCache).

The file never claims more than the log holds, whenever the machine stops:

- An entry is durable before the first record of its epoch is appended. If the log has lost its end in a power cut, or
  the record never came, the entry begins after the end of the log and is dropped at the next start, or it begins
  exactly there and describes nothing.
- The log is cut before the list. Cutting the list first would be wrong: after a crash between the two, the list would
  assign the records of a dropped epoch to the epoch before it, and two different logs would compare as equal. So a
  replica only requests the truncation of its log; the store cuts it at its next start, and then the entries after the
  new end are dropped here. An entry that begins exactly at the cut may remain. It describes nothing, and the next
  handshake or the next epoch of this broker removes it.
"""

import asyncio
import logging

from kerolox.errors import KeroloxError
from kerolox.replication.auto_switch.epochs import FILE_NAME, EpochEntry, EpochFile, Epochs
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.service import Service
from kerolox.runtime.threads import in_thread
from kerolox.store.store import Store

log = logging.getLogger(__name__)

_TRIM_SECONDS = 10.0


class StaleEpoch(KeroloxError):
    """An epoch is not newer than the epochs that the log has."""


class EpochLog(Service):
    """Opened after its store. `epochs` changes only after the file has."""

    def __init__(self, store: Store, disk: Disk, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._file = EpochFile(disk, store.config.store_path_root_dir / FILE_NAME)
        self._lock = asyncio.Lock()
        self.epochs = Epochs()

    async def open(self) -> None:
        loaded = self._file.load()
        self.epochs = loaded.until(self._store.log.end_offset)
        if self.epochs != loaded:
            log.warning("%r is cut to %r, because the log ends at %d", loaded, self.epochs, self._store.log.end_offset)
            self._file.save(self.epochs)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_TRIM_SECONDS)
            try:
                await self.trim()
            except OSError as error:
                log.error("the epoch file could not be written, retrying: %s", error)

    async def begin(self, epoch: int) -> EpochEntry:
        """Record that this broker is the master of `epoch` from the end of its log on; StaleEpoch if that is not newer.

        Nothing may be appended meanwhile. The first epoch of a log that was written without epochs covers all of it.
        """
        store_log = self._store.log
        start_offset = store_log.end_offset if self.epochs.entries else store_log.first_offset
        entry = EpochEntry(epoch, start_offset)
        await self.add(entry)
        assert store_log.end_offset == start_offset or start_offset == store_log.first_offset
        return entry

    async def add(self, entry: EpochEntry) -> None:
        """Record an epoch; it is durable when this returns. StaleEpoch if it is not newer."""
        async with self._lock:
            try:
                changed = self.epochs.with_entry(*entry)
            except ValueError as error:
                raise StaleEpoch(str(error)) from error
            await self._save(changed)

    async def replace(self, epochs: Epochs) -> None:
        async with self._lock:
            await self._save(epochs)

    async def trim(self) -> None:
        """Drop the entries of files of the log that were deleted."""
        async with self._lock:
            await self._save(self.epochs.since(self._store.log.first_offset))

    async def _save(self, epochs: Epochs) -> None:
        if epochs != self.epochs:
            await in_thread(self._file.save, epochs)
            self.epochs = epochs
