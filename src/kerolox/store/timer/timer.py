"""Delivers messages at arbitrary times with a timer wheel (TimerMessageStore)."""

import asyncio
import logging
from datetime import datetime

from kerolox.message.message import Message
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreError
from kerolox.store.store import TIMER_CHECKPOINT, Store
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.convert import CLOCK_BACK_MILLIS
from kerolox.store.timer.dequeue import TimerDequeue
from kerolox.store.timer.divert import ANY_TIMER, TIMER_TOPIC, divert, precision
from kerolox.store.timer.enqueue import TimerEnqueue
from kerolox.store.timer.flush import Progress, TimerFiles, TimerFlush
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.recovery import count_pending, recover
from kerolox.store.timer.slot_reader import SlotReader
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import SLOTS, Wheel

log = logging.getLogger(__name__)

# When as many bytes of the timer log are unwritten, enqueueing pauses.
_PENDING_BYTES_MAX = 1024 * 1024
_SLOTS_MAX = 10_000
# Java drops messages that were due longer ago than half the wheel, less these slots.
_SPARE_SLOTS = 60
_CLEAN_SECONDS = 30.0
# Slots checked per iteration after the clock was set back.
_SLOTS_CHECKED = 1000
# How often the counts are saved; after a crash they are counted again.
_COUNTS_SECONDS = 10.0
_IDLE_MILLIS = 60_000


class Timer(Service):
    """Needs an open store. A message is delivered when its slot is over: never early, and late by less than a slot.

    If the clock is set back, the timer follows it, both at startup and while running (`_rewind`). After a crash it
    resumes at the last flush, and skips the deliveries that it finds in the commit log.
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
        self.checkpoint = TimerCheckpoint(self._disk, root / TIMER_CHECKPOINT, self.precision)
        self.metrics = TimerMetrics(self._disk, root / "config" / "timermetrics")
        self.wheel = Wheel(self._disk, root / "timerwheel", precision=self.precision, slots=slots)
        self.log = TimerLog(self._disk, root / "timerlog", config.mapped_file_size_timer_log)
        self._files = TimerFiles(self.wheel, self.log, self.checkpoint, self.metrics)
        self._dequeue = TimerDequeue(store, self.metrics, self._clock)
        self._enqueue = TimerEnqueue(store, self.wheel, self.log, self._dequeue, self._window())
        self._flush_files = TimerFlush(store, self._files, self._clock)
        # The current time, rounded down to a slot.
        self._write_time = 0
        # The slot that is being delivered, or whose messages are moved.
        self._slot: SlotReader | None = None
        # Slots to check after the clock was set back, in descending order: their messages may have to be moved.
        self._unchecked: list[int] = []
        # End of the commit log when the current slot was begun.
        self._slot_log_end = 0
        # A due slot, and the queue offset up to which messages are enqueued before it is delivered.
        self._enqueue_before = (0, 0)
        self._is_open = False
        self._last_error = ""
        # Progress at the last flush: next queue offset and number of finished messages.
        self._flushed = (-1, -1)
        self._counts_saved = float("-inf")

    def _window(self) -> int:
        """Return the longest time in milliseconds that a message is kept in one slot before it rolls."""
        slots, slots_max = self._config.timer_roll_window_slot, self._slots // 2 - _SPARE_SLOTS
        return (slots if 2 <= slots <= slots_max else max(2, slots_max)) * self.precision

    # Lifecycle

    async def open(self) -> None:
        self.recover()

    def recover(self) -> None:
        """Recover the files; StoreError, with the reason, if that fails. Does nothing if timers are disabled."""
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
        are_counts_valid = self.metrics.load() and self.checkpoint.counts_version == self.metrics.version
        pending_count = self.metrics.pending_count if are_counts_valid else None
        now = self._clock.millis()
        oldest = max(0, self._slot_of(now) - (self._slots // 2 - _SPARE_SLOTS) * self.precision)
        recovered = recover(self._store, self._files, oldest, now=now, pending_count=pending_count)
        self._enqueue.load(recovered.queue_offset, recovered.enqueued)
        self._dequeue.load(recovered.delivered, recovered.delivered_until, self.checkpoint.delivered_from)
        self._write_time = max(self._slot_of(now), self.wheel.read_time)
        # Even if the clock is right, Java or a killed process may have left slots beyond the wheel.
        self._unchecked = sorted(
            (time for time, _ in self.wheel.pending() if self._is_beyond_wheel(time)), reverse=True
        )
        if self._is_clock_back():
            self._rewind()
        if recovered.enqueued or not are_counts_valid or self.checkpoint.counts_version != self.metrics.version:
            self.metrics.replace_counts(count_pending(self._store, self.log, self.wheel), self._clock.millis())
        self._is_open = True

    async def run(self) -> None:
        if not self._is_open:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_loop(), name="timer")
            tasks.create_task(self._flush_periodically(), name="timer flusher")

    async def _run_loop(self) -> None:
        is_sync = self._config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        while True:
            has_worked = self.run_once()
            if has_worked and is_sync:
                # No sender requests this flush, and consumers see only durable messages.
                await self._store.flusher.flush()
            if self.log.pending_bytes > _PENDING_BYTES_MAX:
                await self._flush_or_log()
            if has_worked:
                await asyncio.sleep(0)
            else:
                await self._clock.sleep(self.precision / 10_000)

    async def _flush_periodically(self) -> None:
        next_clean = self._clock.monotonic() + _CLEAN_SECONDS
        while True:
            await self._clock.sleep(self._config.timer_flush_interval_ms / 1000)
            await self._flush_or_log()
            if self._clock.monotonic() >= next_clean:
                next_clean = self._clock.monotonic() + _CLEAN_SECONDS
                self.clean()

    async def _flush_or_log(self) -> None:
        try:
            await self.flush()
        except (OSError, StoreError) as error:
            log.error("the timer files could not be written, retrying: %s", error)

    async def close(self) -> None:
        """Make everything durable, so that the next start has nothing to read again."""
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

    def run_once(self) -> bool:
        """Enqueue and delivers a bounded number of messages; False if there is nothing to do, or it failed."""
        try:
            if not self._follow_clock():
                return False
            has_enqueued = self._enqueue_some()
            has_delivered = self._deliver_some(has_enqueued=has_enqueued)
        except (OSError, StoreError) as error:
            if str(error) != self._last_error:
                log.error("the timer cannot continue, retrying: %s", error)
            self._last_error = str(error)
            return False
        if has_enqueued or has_delivered:
            self._last_error = ""
        return has_enqueued or has_delivered

    # The clock was set back
    #
    # Every slot before wheel.read_time was delivered, and read_time had advanced to the old time. When the clock is set
    # back, messages sent from then on belong to slots before read_time: they would wait until the clock has caught up,
    # which may take years. So read_time moves back to the current time, in three steps.
    #
    # 1. The slots between the current time and the old read_time are erased, in the file too. They were delivered,
    #    although early, and must not be delivered again.
    # 2. The other slots ahead are checked. A slot further away than half the wheel would block one that is due sooner,
    #    and a slot filled while the clock was ahead holds delays computed by that clock. Messages of such slots are put
    #    back into the queue like messages that roll, with their delivery time by the current clock.
    # 3. Only then the checkpoint moves back. A crash before that repeats all steps; messages that were put back are
    #    found in the commit log, and not put back again.

    def _is_clock_back(self) -> bool:
        return self._write_time - self._slot_of(self._clock.millis()) > CLOCK_BACK_MILLIS

    def _follow_clock(self) -> bool:
        """Move forward, or back, to the current time; False if it cannot move back yet."""
        if not self._is_clock_back():
            self._write_time = max(self._write_time, self._slot_of(self._clock.millis()))
            return True
        if self._slot is not None:
            # Finish the slot that is being delivered.
            self._deliver_slot()
        if self._slot is not None or self._flush_files.is_flushing:
            return False
        self._rewind()
        return True

    def _rewind(self) -> None:
        reached, now = self._write_time, self._slot_of(self._clock.millis())
        log.warning(
            "the clock was set back: it shows %s, and timer messages were delivered up to %s, %d s later; "
            "from now on they are delivered by the new time",
            _readable(now),
            _readable(self.wheel.read_time),
            (reached - now) // 1000,
        )
        if self.wheel.read_time > now:
            self.wheel.rewind(now)
        self._write_time = now
        self._dequeue.note_clock_set_back(reached - now)
        self._unchecked = sorted((time for time, _ in self.wheel.pending() if time >= now), reverse=True)
        self._flushed = (-1, -1)

    def _is_beyond_wheel(self, time: int) -> bool:
        return time >= self._write_time + self._slots // 2 * self.precision

    def _check_slots(self) -> None:
        """Find the next slot whose messages have to be moved."""
        for _ in range(min(len(self._unchecked), _SLOTS_CHECKED)):
            time = self._unchecked.pop()
            last = self.wheel.slot(time).last
            unit = self.log.unit(last) if last >= 0 else None
            if unit is not None and (
                self._is_beyond_wheel(time) or unit.enqueue_time > self._write_time + CLOCK_BACK_MILLIS
            ):
                # Moved messages may be enqueued into the same slot while others are still being put back.
                self.wheel.clear(time)
                self._begin_slot(SlotReader(time, last, self.log, self._dequeue.read, is_moved=True))
                return

    # Enqueueing and delivering

    def _enqueue_some(self) -> bool:
        if self._config.timer_stop_enqueue or self.log.pending_bytes > _PENDING_BYTES_MAX:
            return False
        slot = self._slot
        open_time = self.wheel.read_time if slot is None or slot.is_moved else slot.time + self.precision
        return self._enqueue.step(self._write_time, open_time, self._clock.millis())

    def _deliver_some(self, *, has_enqueued: bool) -> bool:
        """Deliver some messages of the oldest slot that is over, or advance to the next such slot."""
        if self._unchecked and self._slot is None:
            self._check_slots()
            return True
        if self._config.timer_stop_dequeue and (self._slot is None or not self._slot.is_moved):
            return False
        if self._slot is None:
            time = self.wheel.next_due(self._write_time, _SLOTS_MAX)
            if time is None:
                if self.is_caught_up:
                    self._dequeue.forget_before(self.wheel.read_time)
                return self.wheel.read_time < self._write_time
            if has_enqueued and self._must_enqueue_first(time):
                return True
            self._begin_slot(SlotReader(time, self.wheel.slot(time).last, self.log, self._dequeue.read))
        self._deliver_slot()
        return True

    def _begin_slot(self, slot: SlotReader) -> None:
        self._slot = slot
        self._slot_log_end = self._store.log.end_offset

    def _deliver_slot(self) -> None:
        slot = self._slot
        assert slot is not None
        if slot.prepare() and self._dequeue.step(slot):
            if not slot.is_moved:
                self.wheel.advance(slot.time + self.precision)
            self._slot = None

    def _must_enqueue_first(self, time: int) -> bool:
        """Whether the queue has messages from before the slot was found due: a recall may be among them."""
        if self._enqueue_before[0] != time:
            queue = self._store.queues.get(TIMER_TOPIC, 0)
            self._enqueue_before = time, queue.max_offset if queue is not None else 0
        return self._enqueue.queue_offset < self._enqueue_before[1]

    @property
    def is_caught_up(self) -> bool:
        """Whether all messages of the queue are enqueued, and all due messages delivered."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        has_enqueued = queue is None or self._enqueue.queue_offset >= queue.max_offset
        is_settled = self._slot is None and not self._unchecked
        return has_enqueued and is_settled and self.wheel.read_time >= self._write_time

    async def flush(self, *, is_last: bool = False) -> None:
        """Make the progress durable. Writes nothing if there is none.

        Nor while slots are still to be checked after the clock was set back; see `_rewind`.
        """
        if self._unchecked or (self._slot is not None and self._slot.is_moved):
            return
        delivered_from = self._dequeue.delivered_from
        if delivered_from is None:
            delivered_from = self._store.log.end_offset if self._slot is None else self._slot_log_end
        progress = Progress(self._enqueue.queue_offset, delivered_from, self._dequeue.done_count)
        now = self._clock.monotonic()
        state = progress.queue_offset, progress.done_count
        # An idle timer may write its time late: nothing was due in between.
        if state == self._flushed and self.wheel.read_time - self.checkpoint.read_time < _IDLE_MILLIS and not is_last:
            return
        with_counts = is_last or now - self._counts_saved >= _COUNTS_SECONDS
        await self._flush_files.flush(progress, with_counts=with_counts)
        self._flushed = state
        if with_counts:
            self._counts_saved = now

    def clean(self) -> int:
        """Delete timer log files whose messages the commit log no longer has; return how many."""
        try:
            return self.log.delete_before(self._store.log.first_offset)
        except OSError as error:
            log.error("old files of the timer log could not be deleted: %s", error)
            return 0

    # Public interface

    def divert(self, message: Message) -> Message:
        """Return the message to store in place of `message`; see `divert.divert`."""
        if ANY_TIMER not in message.properties:
            return message
        return divert(message, self._config, self._clock.millis(), self._is_congested)

    def _is_congested(self, out_time: int) -> bool:
        return self._is_open and self.wheel.slot(out_time).messages > self._config.timer_congest_num_each_slot

    def pending(self, topic: str) -> int:
        """Return the number of pending messages of a topic."""
        return self.metrics.count(topic)

    @property
    def behind_millis(self) -> int:
        """Milliseconds since the time up to which everything was delivered."""
        return max(0, self._clock.millis() - self.wheel.read_time) if self._is_open else 0

    @property
    def behind_messages(self) -> int:
        """Number of messages in the queue that are not in the wheel yet."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        return 0 if queue is None else max(0, queue.max_offset - self._enqueue.queue_offset)

    @property
    def not_enqueued_since(self) -> int:
        """Store time of the first message in the queue that is not in the wheel yet; 0 if there is none."""
        if not self.behind_messages:
            return 0
        queue_offset = max(self._enqueue.queue_offset, self._store.reader.min_offset(TIMER_TOPIC, 0))
        return max(0, self._store.reader.store_time(TIMER_TOPIC, 0, queue_offset))

    def _slot_of(self, millis: int) -> int:
        return millis // self.precision * self.precision


def _readable(millis: int) -> str:
    # A wrong clock may show a time that datetime cannot represent.
    try:
        return f"{datetime.fromtimestamp(millis / 1000):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return f"{millis} ms"
