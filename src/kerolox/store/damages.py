"""Remembers the damaged ranges of the log from start to start, in a file of ours that Java has no eye for.

A start reads the end of the log only. What an earlier one found before that must not be served all the same.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kerolox.runtime.files import Disk, replace_whole
from kerolox.store.log.scan import Damage

log = logging.getLogger(__name__)

FILE_NAME = "damages.json"


class _Known(msgspec.Struct, rename="camel"):
    offset: int
    end_offset: int
    reason: str = ""


class Damages:
    """The ranges that hold no record, as far as they are known."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.known: list[Damage] = []

    def load(self) -> None:
        """Reads the file; one that is not there, or not readable, knows of nothing."""
        content = self._disk.read(self._path)
        try:
            known = msgspec.json.decode(content or b"[]", type=list[_Known])
        except msgspec.MsgspecError as error:
            log.error("%s tells of no damage that could be understood: %s", self._path, error)
            known = []
        self.known = [Damage(one.offset, one.end_offset, one.reason) for one in known]

    def note(self, found: Sequence[Damage], *, first_offset: int, read_from: int) -> None:
        """Takes in what was found from `read_from` on, where nothing else is damaged; reports what is new of it.

        What lies before `first_offset` is gone with its file.
        """
        news = [damage for damage in found if not any(_covers(known, damage) for known in self.known)]
        for damage in news:
            log.error("no record from %d to %d of the commit log: %s", *damage)
        kept = [damage for damage in self.known if damage.end_offset > first_offset and damage.offset < read_from]
        olds = len(kept) + len(found) - len(news)
        if olds:
            log.info("%d damaged ranges of the commit log are known from before, and not served", olds)
        before, self.known = self.known, [*kept, *found]
        if self.known != before:
            self._save()

    def _save(self) -> None:
        content = msgspec.json.encode([_Known(*damage) for damage in self.known])
        try:
            replace_whole(self._disk, self._path, msgspec.json.format(content))
        except OSError as error:
            log.warning("%s could not be written, so that the next start reports the same again: %s", self._path, error)


def _covers(known: Damage, damage: Damage) -> bool:
    return known.offset <= damage.offset and damage.end_offset <= known.end_offset
