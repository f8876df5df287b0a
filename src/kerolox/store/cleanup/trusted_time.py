"""The time by which files expire: the clock's, unless the clock is implausibly far ahead."""

import logging
from pathlib import Path

import msgspec

from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.config import StoreConfig
from kerolox.store.tables import JsonTable

TRUSTED_TIME = "trustedTime.json"

log = logging.getLogger(__name__)

# If wall clock and monotonic clock diverge by more than this, the wall clock was set.
_STEADY_MILLIS = 60_000
_HOUR_MILLIS = 3_600_000
# The clock may be ahead by 1/24 of fileReservedTime: files are then deleted earlier by as much.
_AHEAD_DIVISOR = 24


class _SavedTime(msgspec.Struct, rename="camel"):
    trusted_millis: int = 0


class TrustedTime:
    """A clock that is ahead by mistake makes every file look expired, and deletion cannot be undone.

    So a jump ahead is not followed at once, nor is a start long after the last known time. Time continues from where
    it was, by the monotonic clock, until the clock is right again or has been steady for as long as files are kept
    (`fileReservedTime`); a broker that was off for a year deletes its old files then. A clock that is set back is
    followed at once, since files then look younger. The time is saved regularly, because the timestamps of records
    and files may have been written by a wrong clock.
    """

    def __init__(self, config: StoreConfig, disk: Disk, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        path: Path = config.store_path_root_dir / "config" / TRUSTED_TIME
        self._table: JsonTable[_SavedTime] = JsonTable(disk, path, _SavedTime)
        # Offsets from the monotonic clock: of the trusted time, and of the wall clock when last read.
        self._trusted = self._shown = self._difference
        self._shown_since = clock.monotonic()
        self._is_distrusted = False

    def load(self, newest_millis: int) -> None:
        """Start at the saved time, or else at `newest_millis`, when the log was last written (0 if never).

        StoreDamaged if the file cannot be read.
        """
        saved = self._table.load()
        known = newest_millis if saved is None else saved.trusted_millis
        self._trusted = self._shown = self._difference
        self._shown_since = self._clock.monotonic()
        if known > 0:
            self._trusted = min(self._trusted, known - round(self._clock.monotonic() * 1000))

    def millis(self) -> int:
        """Return the trusted time; logs a warning when it begins to differ from the clock."""
        now, shown, monotonic = self._clock.millis(), self._difference, self._clock.monotonic()
        if abs(shown - self._shown) > _STEADY_MILLIS:
            self._shown, self._shown_since = shown, monotonic
        hours = max(1, self._config.file_reserved_time)
        if shown < self._trusted or monotonic - self._shown_since >= hours * 3600:
            self._trusted = shown
        ahead = shown - self._trusted
        is_distrusted = ahead > hours * _HOUR_MILLIS // _AHEAD_DIVISOR
        if is_distrusted and not self._is_distrusted:
            log.warning(
                "the clock is %.1f hours ahead of the time at which this store was last in use, or of its own time "
                "before: files are deleted as if it were not, until it has been steady for %d hours",
                ahead / _HOUR_MILLIS,
                hours,
            )
            log.info("the clock is trusted again, files are deleted by its time")
        self._is_distrusted = is_distrusted
        return now - ahead if is_distrusted else now

    def content(self) -> bytes:
        """Return the content of the file, to be saved in a thread."""
        return self._table.encode(_SavedTime(self.millis()))

    def save(self, content: bytes) -> None:
        """Replace the file. May block. On OSError the file has its old content."""
        self._table.save(content)

    @property
    def _difference(self) -> int:
        return self._clock.millis() - round(self._clock.monotonic() * 1000)
