"""The timer: enters messages of its topic into the wheel, and delivers them when their time has come."""

import asyncio
import logging

from kerolox.message.message import Message
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.configuration import FlushDiskType
from kerolox.store.errors import StoreError
from kerolox.store.store import Store
from kerolox.store.timer.behind import Progress, TimerBehind
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.delivering import Delivering
from kerolox.store.timer.divert import ANY_TIMER, TIMER_TOPIC, divert, precision
from kerolox.store.timer.due import Due
from kerolox.store.timer.entering import Entering
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.recovery import count_pending, recover
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import SLOTS, Wheel

log = logging.getLogger(__name__)

# What waits in memory to be written is at most so much; then entering pauses.
_PENDING_BYTES_MAX = 1024 * 1024
_SLOTS_MAX = 10_000
# Java forgets what was due longer ago than half the wheel, less these.
_SPARE_SLOTS = 60
_CLEAN_SECONDS = 30.0
# How often the counts are saved; after a crash they are counted anew.
_COUNTS_MILLIS = 10_000
_IDLE_MILLIS = 60_000


class Timer(Service):
    """Beside an open store. Messages are delivered when the slot of their time is over: never early, and late by less
    than the precision.

    After a crash it goes on where the last flush was, and passes over what it finds in the commit log already.
    """

    def __init__(
        self, store: Store, *, clock: Clock | None = None, disk: Disk | None = None, slots: int = SLOTS
    ) -> None:
        self._store = store
        self._config = config = store.config
        self._clock = clock or SystemClock()
        self._disk = disk or RealDisk()
        self._slots = slots
        self.precision = precision(config)
        root = config.store_path_root_dir
        self.checkpoint = TimerCheckpoint(self._disk, root / "config" / "timercheck", self.precision)
        self.metrics = TimerMetrics(self._disk, root / "config" / "timermetrics")
        self.wheel = Wheel(self._disk, root / "timerwheel", precision=self.precision, slots=slots)
        self.log = TimerLog(self._disk, root / "timerlog", config.mapped_file_size_timer_log)
        self._delivering = Delivering(store, self.metrics, self._clock)
        self._entering = Entering(store, self.wheel, self.log, self._delivering, self._window())
        self._behind = TimerBehind(store, self.wheel, self.log, self.checkpoint, self.metrics, self._clock)
        # The present, in whole slots. It never goes back, whatever the clock does.
        self._write_time = 0
        self._due: Due | None = None
        # Where the commit log ended when the slot that is being delivered was begun.
        self._began_at = 0
        # A slot that is due, and up to where the queue is to be entered before it is delivered.
        self._awaited = (0, 0)
        self._is_open = False
        self._complaint = ""
        # What was entered and delivered when it was last made durable.
        self._flushed = (-1, -1)
        self._counts_saved = 0

    def _window(self) -> int:
        """Returns after how many milliseconds messages roll."""
        slots, slots_max = self._config.timer_roll_window_slot, self._slots // 2 - _SPARE_SLOTS
        return (slots if 2 <= slots <= slots_max else max(2, slots_max)) * self.precision

    # Life

    async def open(self) -> None:
        self.recover()

    def recover(self) -> None:
        """Loads what is there; StoreError, with the reason, if it cannot be. Nothing if timers are switched off."""
        if not self._config.timer_wheel_enable:
            return
        try:
            self._recover()
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise StoreError(f"the timer could not be opened: {error}") from error
            raise

    def _recover(self) -> None:
        root = self._config.store_path_root_dir
        for directory in (root / "config", root / "timerlog"):
            self._disk.make_directory(directory)
        self.checkpoint.load()
        self.metrics.load()
        self._write_time = self._slot_of(self._clock.millis())
        oldest = max(0, self._write_time - (self._slots // 2 - _SPARE_SLOTS) * self.precision)
        recovered = recover(self._store, self.log, self.wheel, self.checkpoint, oldest)
        self._write_time = max(self._write_time, self.wheel.read_time)
        self._entering.load(recovered.queue_offset, recovered.entered)
        self._delivering.load(recovered.delivered, recovered.delivered_until)
        if recovered.entered or self.checkpoint.counts_version != self.metrics.version:
            self.metrics.recounted(count_pending(self._store, self.log, self.wheel), self._clock.millis())
        self._is_open = True

    async def run(self) -> None:
        if not self._is_open:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work(), name="timer")
            tasks.create_task(self._flush_again(), name="timer flusher")

    async def _work(self) -> None:
        is_sync = self._config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        while True:
            has_moved = self.turn()
            if has_moved and is_sync:
                # Nobody else would ask for it, and consumers see only what is durable.
                await self._store.flusher.flush()
            if self.log.pending_bytes > _PENDING_BYTES_MAX:
                await self._try_to_flush()
            if has_moved:
                await asyncio.sleep(0)
            else:
                await self._clock.sleep(self.precision / 10_000)

    async def _flush_again(self) -> None:
        next_clean = self._clock.monotonic() + _CLEAN_SECONDS
        while True:
            await self._clock.sleep(self._config.timer_flush_interval_ms / 1000)
            await self._try_to_flush()
            if self._clock.monotonic() >= next_clean:
                next_clean = self._clock.monotonic() + _CLEAN_SECONDS
                self.clean()

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except (OSError, StoreError) as error:
            log.error("the timer could not be written, which is tried again: %s", error)

    async def close(self) -> None:
        """Makes everything durable; nothing is read again at the next start."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self.flush(is_last=True)
        except OSError as error:
            raise StoreError(f"the timer was not closed cleanly: {error}") from error
        finally:
            self._release()

    def _release(self) -> None:
        self.wheel.close()
        self.log.close()

    # Work

    def turn(self) -> bool:
        """Does a bounded part of what is to be done now; False if there is nothing, or it cannot be done."""
        try:
            self._write_time = max(self._write_time, self._slot_of(self._clock.millis()))
            has_entered = self._enter()
            has_delivered = self._deliver(has_entered=has_entered)
        except (OSError, StoreError) as error:
            if str(error) != self._complaint:
                log.error("the timer cannot go on, which is tried again: %s", error)
            self._complaint = str(error)
            return False
        if has_entered or has_delivered:
            self._complaint = ""
        return has_entered or has_delivered

    def _enter(self) -> bool:
        if self._config.timer_stop_enqueue or self.log.pending_bytes > _PENDING_BYTES_MAX:
            return False
        open_time = self.wheel.read_time if self._due is None else self._due.time + self.precision
        return self._entering.step(self._write_time, open_time, self._clock.millis())

    def _deliver(self, *, has_entered: bool) -> bool:
        """Delivers some messages of the oldest slot whose time is over, or moves on to the next such slot."""
        if self._config.timer_stop_dequeue:
            return False
        if self._due is None:
            time = self.wheel.next_due(self._write_time, _SLOTS_MAX)
            if time is None:
                if self.is_caught_up:
                    self._delivering.forget_before(self.wheel.read_time)
                return self.wheel.read_time < self._write_time
            if has_entered and self._awaits_entering(time):
                return True
            self._due = Due(time, self.wheel.slot(time).last, self.log, self._delivering.read)
            self._began_at = self._store.log.end_offset
        if self._due.prepare() and self._delivering.step(self._due):
            self.wheel.pass_by(self._due.time + self.precision)
            self._due = None
        return True

    def _awaits_entering(self, time: int) -> bool:
        """Whether messages stand in the queue since before the slot was found: a recall may be among them."""
        if self._awaited[0] != time:
            queue = self._store.queues.get(TIMER_TOPIC, 0)
            self._awaited = time, queue.max_offset if queue is not None else 0
        return self._entering.queue_offset < self._awaited[1]

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is in the queue has been entered, and all that is due delivered."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        has_entered = queue is None or self._entering.queue_offset >= queue.max_offset
        return has_entered and self._due is None and self.wheel.read_time >= self._write_time

    async def flush(self, *, is_last: bool = False) -> None:
        """Makes durable how far the timer has come. Nothing is written if it has not moved."""
        delivered_from = self._store.log.end_offset if self._due is None else self._began_at
        progress = Progress(self._entering.queue_offset, delivered_from, self._delivering.left)
        now = self._clock.millis()
        moved = progress.queue_offset, progress.left
        # Nothing is lost if the time of an idle timer is written late: nothing was due in between.
        if moved == self._flushed and self.wheel.read_time - self.checkpoint.read_time < _IDLE_MILLIS and not is_last:
            return
        with_counts = is_last or now - self._counts_saved >= _COUNTS_MILLIS
        await self._behind.flush(progress, with_counts=with_counts)
        self._flushed = moved
        if with_counts:
            self._counts_saved = now

    def clean(self) -> int:
        """Removes files of the timer log whose messages the commit log no longer has; returns how many."""
        try:
            return self.log.delete_before(self._store.log.first_offset)
        except OSError as error:
            log.error("old files of the timer log could not be removed: %s", error)
            return 0

    # For others

    def divert(self, message: Message) -> Message:
        """Returns what is to be stored instead of `message`; see `divert.divert`."""
        if ANY_TIMER not in message.properties:
            return message
        return divert(message, self._config, self._clock.millis(), self._is_congested)

    def _is_congested(self, out_time: int) -> bool:
        return self._is_open and self.wheel.slot(out_time).messages > self._config.timer_congest_num_each_slot

    def pending(self, topic: str) -> int:
        """Returns how many messages wait for a topic."""
        return self.metrics.count(topic)

    @property
    def behind_millis(self) -> int:
        """How long ago the time is up to which everything was delivered."""
        return max(0, self._clock.millis() - self.wheel.read_time) if self._is_open else 0

    @property
    def behind_messages(self) -> int:
        """How many messages have come that are not on the wheel yet."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        return 0 if queue is None else max(0, queue.max_offset - self._entering.queue_offset)

    @property
    def unentered_since(self) -> int:
        """When the first of them was stored; 0 if there is none."""
        if not self.behind_messages:
            return 0
        queue_offset = max(self._entering.queue_offset, self._store.reader.min_offset(TIMER_TOPIC, 0))
        return max(0, self._store.reader.store_time(TIMER_TOPIC, 0, queue_offset))

    def _slot_of(self, millis: int) -> int:
        return millis // self.precision * self.precision
