"""Deletes what is old, or what the disk has no room for, and refuses messages before it is full."""

import errno
import logging
from datetime import datetime

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.service import Service
from kerolox.store.behind import Behind
from kerolox.store.cleaning.deleted_topics import DeletedTopics
from kerolox.store.cleaning.trimming import trim
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.queue.queues import Queues

log = logging.getLogger(__name__)

_FIRST_LOOK_SECONDS = 1.0
_FIRST_ROUND_SECONDS = 60.0
# How soon after there is room again messages are accepted.
_TICK_SECONDS = 1.0
_ORDERED_ROUNDS = 20
_HOUR_MILLIS = 3_600_000
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Retention(Service):
    """Files of the log go first, the oldest before the others and never the one being written; then what led to them.

    What was asked for by age goes in certain hours, or when the disk fills. When it is nearly full, files go that are
    not old yet, as few as will do.
    """

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        commit_log: CommitLog,
        queues: Queues,
        index: KeyIndex | None,
        behind: Behind,
        deleted: DeletedTopics,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._behind = behind
        self._deleted = deleted
        # Why messages are not accepted, as long as they are not.
        self.refusal: str | None = None
        # How full the fuller of the disks was when last looked at.
        self.used_ratio = 0.0
        self._is_out_of_room = False
        self._rounds_ordered = 0
        # Up to here queues and index have followed the beginning of the log.
        self._followed_offset = 0

    async def run(self) -> None:
        began = self._clock.monotonic()
        next_look, next_round = began + _FIRST_LOOK_SECONDS, began + _FIRST_ROUND_SECONDS
        while True:
            interval = self._config.clean_resource_interval / 1000
            await self._clock.sleep(min(_TICK_SECONDS, interval))
            now = self._clock.monotonic()
            failure, self._behind.failure = self._behind.failure, None
            self.note(failure)
            try:
                if now >= next_round or self._is_out_of_room:
                    next_round = max(next_round, now + interval)
                    await self.clean()
                elif now >= next_look or self.refusal is not None:
                    next_look = now + interval
                    await self.look()
            except (OSError, StoreError) as error:
                log.error("old files could not be deleted, which is tried again: %s", error)

    def order(self) -> None:
        """Lets the next rounds delete what has expired, whatever the hour."""
        self._rounds_ordered = _ORDERED_ROUNDS

    def note(self, error: Exception | None) -> None:
        """Takes note of a failure: if it came of a full disk, files are deleted at once."""
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            self._is_out_of_room = True

    async def look(self) -> float:
        """Returns how full the disks are, and refuses messages or accepts them again."""
        self.used_ratio = used = await in_thread(self._measure)
        warning = self._warning_ratio
        if used <= warning:
            if self.refusal is not None:
                log.info("the disk is %.1f %% full: messages are accepted again", used * 100)
            self.refusal = None
            return used
        if self.refusal is None:
            log.error("the disk is %.1f %% full, and above %.0f %% no message is accepted", used * 100, warning * 100)
        self.refusal = f"the disk is {used:.1%} full, and above {warning:.0%} no message is accepted"
        return used

    async def clean(self) -> int:
        """Deletes what may go now, and returns how many files of the log went."""
        config = self._config
        used = await self.look()
        is_out_of_room, self._is_out_of_room = self._is_out_of_room, False
        is_ordered, self._rounds_ordered = self._rounds_ordered > 0, max(0, self._rounds_ordered - 1)
        is_filling = used > min(_between(0.10, config.disk_max_used_space_ratio / 100, 0.95), self._forcible_ratio)
        count = 0
        if is_ordered or is_filling or is_out_of_room or self._is_hour():
            count = await self._delete_files(is_out_of_room=is_out_of_room)
            if not count and (is_filling or is_out_of_room):
                log.warning("the disk is %.1f %% full, and no file of the log may be deleted", used * 100)
        if self._log.first_offset > self._followed_offset:
            await self._follow()
        if not self._deleted.is_saved:
            await self._save_deleted()
        if count:
            await self.look()
        return count

    @property
    def _warning_ratio(self) -> float:
        return _between(0.35, self._config.disk_space_warning_level_ratio / 100, 0.90)

    @property
    def _forcible_ratio(self) -> float:
        return min(_between(0.30, self._config.disk_space_clean_forcibly_ratio / 100, 0.85), self._warning_ratio)

    def _measure(self) -> float:
        places = self._config.commit_log_directory, self._config.store_path_root_dir
        return max(self._disk.used_ratio(place) for place in places)

    def _is_hour(self) -> bool:
        return datetime.fromtimestamp(self._clock.millis() / 1000).hour in self._config.delete_when.numbers

    # The log

    async def _delete_files(self, *, is_out_of_room: bool) -> int:
        config = self._config
        expired_before = self._clock.millis() - config.file_reserved_time * _HOUR_MILLIS
        count, safe_offset = 0, -1
        for end_offset, path in self._log.oldest(config.delete_file_batch_max):
            if self._disk.modified_millis(path) > expired_before and not await self._is_forced(
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
                self._log.settle(removal)
            log.info("deleted %s", path)
            count += 1
        return count

    async def _is_forced(self, *, is_out_of_room: bool) -> bool:
        """Whether even what has not expired must go. What went before may have been enough, so it is asked again."""
        if not self._config.clean_file_forcibly_enable:
            return False
        return is_out_of_room or await in_thread(self._measure) > self._forcible_ratio

    async def _safe_offset(self) -> int:
        """Returns up to where the log may go: once a record has, nobody could make its entry again."""
        try:
            await self._behind.flush()
        except (OSError, StoreError) as error:
            log.warning("only files are deleted that no unwritten queue needs: %s", error)
        return self._behind.safe_offset

    async def _follow(self) -> None:
        """Deletes what leads to nothing but deleted records."""
        offset = self._log.first_offset
        await trim(self._queues, self._index, self._behind.lock, self._clock, offset)
        self._deleted.prune(offset)
        self._followed_offset = offset

    async def _save_deleted(self) -> None:
        async with self._behind.lock:
            await in_thread(self._deleted.save, self._deleted.content())
            self._deleted.is_saved = True


def _between(low: float, value: float, high: float) -> float:
    return max(low, min(value, high))
