"""A table in memory and its file: saved when it has changed, and when the broker ends."""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from kerolox.errors import SystemFailure
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.topics import DataVersion

log = logging.getLogger(__name__)

T = TypeVar("T")


class Kept(Service, Generic[T]):
    """Saves every so often what has been marked as changed; whoever must be sure awaits `save`.

    A large table takes a while to encode, which is done in a thread if `value` returns a copy that nobody changes.
    """

    def __init__(
        self, file: JsonTable[T], value: Callable[[], T], *, clock: Clock, seconds: float, is_copied: bool = False
    ) -> None:
        self._file = file
        self._value = value
        self._is_copied = is_copied
        self._clock = clock
        self._seconds = seconds
        self._saving = asyncio.Lock()
        self._changes = self._saved = 0

    def changed(self) -> None:
        self._changes += 1

    async def save(self) -> None:
        """Returns when what holds now is in the file; OSError if it cannot be."""
        wanted = self._changes
        async with self._saving:
            # Somebody who came before may have saved this change with its own.
            if self._saved >= wanted:
                return
            changes = self._changes
            if self._is_copied:
                await in_thread(self._write, self._value())
            else:
                await in_thread(self._file.save, self._file.encode(self._value()))
            self._saved = changes

    async def kept(self) -> None:
        """Like `save`, for an answer: SystemFailure says that the change holds only until a restart."""
        try:
            await self.save()
        except OSError as error:
            log.error("%s could not be saved, which is tried again: %s", self._file.path.name, error)
            raise SystemFailure(f"changed, but not kept over a restart: {error}") from error

    def _write(self, value: T) -> None:
        self._file.save(self._file.encode(value))

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._seconds)
            try:
                await self.save()
            except OSError as error:
                log.error("%s could not be saved, which is tried again: %s", self._file.path.name, error)

    async def close(self) -> None:
        await self.save()


def bump(version: DataVersion, millis: int) -> None:
    """Gives a table its next version; later than the last even if the clock is not."""
    version.counter += 1
    version.timestamp = max(millis, version.timestamp)
