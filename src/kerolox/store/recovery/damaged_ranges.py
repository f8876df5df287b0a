"""Persists the damaged ranges of the commit log across restarts, in a file that Java ignores.

A start reads only the end of the log, but must not serve damage that an earlier start found before it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kerolox.runtime.files import Disk, replace_whole
from kerolox.store.log.scan import Damage

log = logging.getLogger(__name__)

FILE_NAME = "damages.json"


class _SavedRange(msgspec.Struct, rename="camel"):
    offset: int
    end_offset: int
    reason: str = ""


class DamagedRanges:
    """The known ranges of the log that hold no record."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.known: list[Damage] = []

    def load(self) -> None:
        """Read the file; a missing or unreadable file counts as empty."""
        content = self._disk.read(self._path)
        try:
            saved = msgspec.json.decode(content or b"[]", type=list[_SavedRange])
        except msgspec.MsgspecError as error:
            log.error("%s cannot be read, damaged ranges found by earlier starts are unknown: %s", self._path, error)
            saved = []
        self.known = [Damage(item.offset, item.end_offset, item.reason) for item in saved]

    def note(self, found: Sequence[Damage], *, first_offset: int, read_from: int) -> None:
        """Replace the known ranges from `read_from` on by those just found, log the new ones and save the file.

        Ranges before `first_offset` are gone with their files.
        """
        news = [damage for damage in found if not any(_covers(known, damage) for known in self.known)]
        for damage in news:
            log.error("no record from %d to %d of the commit log: %s", *damage)
        kept = [damage for damage in self.known if damage.end_offset > first_offset and damage.offset < read_from]
        olds = len(kept) + len(found) - len(news)
        if olds:
            log.info("%d damaged ranges of the commit log were known before and are not served", olds)
        before, self.known = self.known, [*kept, *found]
        if self.known != before:
            self._save()

    def _save(self) -> None:
        content = msgspec.json.encode([_SavedRange(*damage) for damage in self.known])
        try:
            replace_whole(self._disk, self._path, msgspec.json.format(content))
        except OSError as error:
            log.warning("%s could not be written, the next start will report the damage again: %s", self._path, error)


def _covers(known: Damage, damage: Damage) -> bool:
    return known.offset <= damage.offset and damage.end_offset <= known.end_offset
