"""Saves a table to its JSON file, periodically and when the broker closes (ConfigManager)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from time import perf_counter
from typing import Generic, TypeVar

from kerolox.errors import SystemFailure
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.runtime.threads import in_thread
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.topics import DataVersion

log = logging.getLogger(__name__)

T = TypeVar("T")

# A save requested by `save_soon` waits this long, so that many changes share it.
_SAVE_SOON_SECONDS = 0.2
# Between saves outside the interval there is a pause of this many times the encoding time: saving a table of a million
# entries again and again must not keep a core busy.
_PAUSE_RATIO = 20


class JsonFile(Service, Generic[T]):
    """Saves a changed table every `seconds`; a caller that needs the change on disk awaits `save`.

    Encoding a large table takes a while. With `is_copied`, `value` returns a copy that is never modified, so that a
    thread can encode it. `prepare` is awaited before each save.
    """

    def __init__(
        self,
        file: JsonTable[T],
        value: Callable[[], T],
        *,
        clock: Clock,
        seconds: float,
        is_copied: bool = False,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._file = file
        self._value = value
        self._is_copied = is_copied
        self._clock = clock
        self._seconds = seconds
        self._prepare = prepare
        self._saving = asyncio.Lock()
        # Changes so far, and those of them that are in the file.
        self._changes = self._saved = 0
        self._save_requested = asyncio.Event()
        # Time of the last save, and how long encoding took.
        self._saved_at, self._encode_seconds = -inf, 0.0

    def __str__(self) -> str:
        return f"table {self._file.path.name}"

    def changed(self) -> None:
        """Note that the table has changed, so that it is saved at the end of the interval."""
        self._changes += 1

    def save_soon(self) -> None:
        """Save the table soon instead of at the end of the interval."""
        self._save_requested.set()

    async def save(self) -> None:
        """Return when all changes so far are in the file; OSError if it cannot be written."""
        if self._prepare is not None:
            await self._prepare()
        wanted = self._changes
        async with self._saving:
            # A concurrent save that held the lock may have included these changes.
            if self._saved >= wanted:
                return
            changes, began = self._changes, perf_counter()
            value = self._value()
            content = await in_thread(self._file.encode, value) if self._is_copied else self._file.encode(value)
            self._encode_seconds = perf_counter() - began
            await in_thread(self._file.save, content)
            self._saved, self._saved_at = changes, self._clock.monotonic()

    async def save_for_response(self) -> None:
        """Like `save`, before a response: SystemFailure tells the client that a restart would undo the change."""
        try:
            await self.save()
        except OSError as error:
            log.error("could not save %s, retrying: %s", self._file.path.name, error)
            raise SystemFailure(f"changed, but not kept over a restart: {error}") from error

    async def run(self) -> None:
        while True:
            await self._pause()
            await self.try_to_save()

    async def _pause(self) -> None:
        """Wait for the interval, or shorter after `save_soon`."""
        waits = [
            asyncio.ensure_future(self._clock.sleep(self._seconds)),
            asyncio.ensure_future(self._save_requested.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._save_requested.is_set():
            await self._clock.sleep(min(max(_SAVE_SOON_SECONDS, self._encode_seconds * _PAUSE_RATIO), self._seconds))
            self._save_requested.clear()

    async def save_early(self) -> None:
        """Save now, or soon if the table is large and was saved a short time ago."""
        if self._clock.monotonic() - self._saved_at < self._encode_seconds * _PAUSE_RATIO:
            self.save_soon()
        else:
            await self.try_to_save()

    async def try_to_save(self) -> None:
        """Save; if the file cannot be written, log it. `run` retries."""
        try:
            await self.save()
        except OSError as error:
            log.error("could not save %s, retrying: %s", self._file.path.name, error)

    async def close(self) -> None:
        await self.save()


def bump(version: DataVersion, millis: int) -> None:
    """Increment a table's version; its timestamp never decreases, even if the clock was set back."""
    version.counter += 1
    version.timestamp = max(millis, version.timestamp)
