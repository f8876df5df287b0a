"""Deletes expired files, and refuses messages before the disk is full (CleanCommitLogService)."""

import errno
import logging
from datetime import datetime
from pathlib import Path

from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.service import Service
from kerolox.runtime.threads import in_thread
from kerolox.store.cleanup.deleted_topics import DeletedTopics
from kerolox.store.cleanup.trim import trim
from kerolox.store.cleanup.trusted_time import TrustedTime
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.flush_behind import FlushBehind
from kerolox.store.log.commit_log import CommitLog

log = logging.getLogger(__name__)

_FIRST_CHECK_SECONDS = 1.0
_FIRST_ROUND_SECONDS = 60.0
# How often the disk is checked while messages are refused.
_TICK_SECONDS = 1.0
_REQUESTED_ROUNDS = 20
_HOUR_MILLIS = 3_600_000
_SAVE_TIME_SECONDS = 300.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Retention(Service):
    """Deletes files of the log, oldest first and never the last one; then the queue and index files for them.

    Expired files are deleted in the hours of `deleteWhen`, or when the disk fills up. When the disk is nearly full,
    unexpired files are deleted too, as few as possible. Age is counted by `trusted_time`, so that a clock that is
    ahead by mistake does not delete everything.
    """

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        commit_log: CommitLog,
        flush_behind: FlushBehind,
        deleted_topics: DeletedTopics,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._log = commit_log
        self._flush_behind = flush_behind
        self._deleted_topics = deleted_topics
        self.trusted_time = TrustedTime(config, disk, clock)
        # Why messages are refused; None while they are accepted.
        self.refusal: str | None = None
        # Usage of the fuller of the disks at the last check.
        self.used_ratio = 0.0
        self._is_out_of_room = False
        self._rounds_requested = 0
        # Queues and index have been trimmed up to this physical offset.
        self._trimmed_offset = 0

    def load(self) -> None:
        """Load the time at which the store was last in use; StoreDamaged if it cannot be read."""
        newest = [self._disk.modified_millis(path) for _, path in self._log.files()[-2:]]
        self.trusted_time.load(max(newest, default=0))

    async def run(self) -> None:
        began = self._clock.monotonic()
        next_check, next_round = began + _FIRST_CHECK_SECONDS, began + _FIRST_ROUND_SECONDS
        next_save = began
        while True:
            interval = self._config.clean_resource_interval / 1000
            await self._clock.sleep(min(_TICK_SECONDS, interval))
            now = self._clock.monotonic()
            # Called for its side effect: it notices jumps of the clock.
            self.trusted_time.millis()
            self.note_failure(self._flush_behind.take_failure())
            try:
                if now >= next_save:
                    next_save = now + _SAVE_TIME_SECONDS
                    await in_thread(self.trusted_time.save, self.trusted_time.content())
                if now >= next_round or self._is_out_of_room:
                    next_round = max(next_round, now + interval)
                    await self.clean()
                elif now >= next_check or self.refusal is not None:
                    next_check = now + interval
                    await self.check_disk()
            except (OSError, StoreError) as error:
                log.error("old files could not be deleted, retrying: %s", error)

    def request_deletion(self) -> None:
        """Let the next rounds delete expired files, whatever the hour."""
        self._rounds_requested = _REQUESTED_ROUNDS

    def note_failure(self, error: Exception | None) -> None:
        """If an error means that the disk is full, the next round deletes files at once."""
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            self._is_out_of_room = True

    async def check_disk(self) -> float:
        """Return the disk usage, and refuse messages or accept them again."""
        self.used_ratio = used = await in_thread(self._measure)
        warning = self._warning_ratio
        if used <= warning:
            if self.refusal is not None:
                log.info("the disk is %.1f %% full, messages are accepted again", used * 100)
            self.refusal = None
            return used
        if self.refusal is None:
            log.error("the disk is %.1f %% full, messages are refused above %.0f %%", used * 100, warning * 100)
        self.refusal = f"the disk is {used:.1%} full, messages are refused above {warning:.0%}"
        return used

    async def clean(self) -> int:
        """Delete what may be deleted now; return the number of commit log files."""
        config = self._config
        used = await self.check_disk()
        is_out_of_room, self._is_out_of_room = self._is_out_of_room, False
        is_requested, self._rounds_requested = self._rounds_requested > 0, max(0, self._rounds_requested - 1)
        is_filling = used > min(_between(0.10, config.disk_max_used_space_ratio / 100, 0.95), self._forcible_ratio)
        count = 0
        if is_requested or is_filling or is_out_of_room or self._is_hour():
            count = await self._delete_files(is_out_of_room=is_out_of_room)
            if not count and (is_filling or is_out_of_room):
                log.warning("the disk is %.1f %% full, and no file of the log may be deleted", used * 100)
        if self._log.first_offset > self._trimmed_offset:
            await self._trim()
        if not self._deleted_topics.is_saved:
            await self._save_deleted()
        if count:
            await self.check_disk()
        return count

    @property
    def _warning_ratio(self) -> float:
        return _between(0.35, self._config.disk_space_warning_level_ratio / 100, 0.90)

    @property
    def _forcible_ratio(self) -> float:
        return min(_between(0.30, self._config.disk_space_clean_forcibly_ratio / 100, 0.85), self._warning_ratio)

    def _measure(self) -> float:
        directories = self._config.commit_log_directory, self._config.store_path_root_dir
        return max(self._disk.used_ratio(directory) for directory in directories)

    def _is_hour(self) -> bool:
        return datetime.fromtimestamp(self._clock.millis() / 1000).hour in self._config.delete_when.numbers

    # Commit log files

    async def _delete_files(self, *, is_out_of_room: bool) -> int:
        config = self._config
        expired_before = self.trusted_time.millis() - config.file_reserved_time * _HOUR_MILLIS
        count, safe_offset = 0, -1
        for end_offset, path in self._log.oldest(config.delete_file_batch_max):
            if self._modified_millis(end_offset, path) > expired_before and not await self._is_forced(
                is_out_of_room=is_out_of_room and not count
            ):
                break
            if safe_offset < 0:
                safe_offset = await self._safe_offset()
            if end_offset > safe_offset:
                break
            if count and config.delete_commit_log_files_interval > 0:
                await self._clock.sleep(config.delete_commit_log_files_interval / 1000)
            removal = self._log.detach(end_offset)
            if removal is None:
                break
            try:
                await in_thread(removal.run)
            finally:
                self._log.finish_removal(removal)
            log.info("deleted %s", path)
            count += 1
        return count

    def _modified_millis(self, end_offset: int, path: Path) -> int:
        """Return the modification time of a file of the log.

        A time in the future was set while the clock was ahead. The file counts as no newer than the files that follow
        it; otherwise it and all following files would be kept until that time.
        """
        modified, now = self._disk.modified_millis(path), self._clock.millis()
        for following_end, following in self._log.files() if modified > now else ():
            if following_end > end_offset:
                modified = min(modified, self._disk.modified_millis(following))
        return modified

    async def _is_forced(self, *, is_out_of_room: bool) -> bool:
        """Whether unexpired files must be deleted. Asked for each file, since earlier deletions may be enough."""
        if not self._config.clean_file_forcibly_enable:
            return False
        return is_out_of_room or await in_thread(self._measure) > self._forcible_ratio

    async def _safe_offset(self) -> int:
        """Return up to where the log may be deleted; a queue entry that is not durable yet still needs its record."""
        try:
            await self._flush_behind.flush()
        except (OSError, StoreError) as error:
            log.warning("keeping the files that unwritten queues need: %s", error)
        return self._flush_behind.safe_offset

    async def _trim(self) -> None:
        """Delete queue and index files that point to deleted records only."""
        offset = self._log.first_offset
        await trim(self._flush_behind.queues, self._flush_behind.index, self._flush_behind.lock, self._clock, offset)
        self._deleted_topics.prune(offset)
        self._trimmed_offset = offset

    async def _save_deleted(self) -> None:
        async with self._flush_behind.lock:
            await in_thread(self._deleted_topics.save, self._deleted_topics.content())
            self._deleted_topics.is_saved = True


def _between(low: float, value: float, high: float) -> float:
    return max(low, min(value, high))
