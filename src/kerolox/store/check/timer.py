"""Checks the timer's files against each other and the log: checkpoint, units, and slots."""

import struct
from collections.abc import Mapping

import msgspec

from kerolox.runtime.files import Disk, File
from kerolox.store.check.report import Meter, Report
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.segments import Segments
from kerolox.store.timer.checkpoint import FILE_SIZE, TimerCheckpoint
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.timer_log import UNIT_SIZE, TimerLog, Unit
from kerolox.store.timer.wheel import SLOT, SLOTS

# Size and physical offset in the header of a record.
_SIZE_AND_OFFSET = struct.Struct(">i24xq")
_CHUNK_SLOTS = 32 * 1024
_NOTHING = bytes(_CHUNK_SLOTS * SLOT.size)


class _Fault(msgspec.Struct):
    """A kind of fault: how often it was found, and where first."""

    first: str
    count: int = 0


class TimerCheck:
    """A running timer is ahead of its checkpoint, which is then only noted.

    For each kind of fault the first is reported, with a count: memory is needed for neither units nor slots.
    """

    def __init__(self, disk: Disk, config: StoreConfig, report: Report, *, slots: int = SLOTS) -> None:
        root = config.store_path_root_dir
        self._disk = disk
        self._report = report
        self._wheel_path = root / "timerwheel"
        self._wheel_size = slots * SLOT.size
        self._checkpoint_path = root / "config" / "timercheck"
        self._checkpoint = TimerCheckpoint(disk, self._checkpoint_path, config.timer_precision_ms)
        self._metrics = TimerMetrics(disk, root / "config" / "timermetrics")
        self._log = TimerLog(disk, root / "timerlog", config.mapped_file_size_timer_log)
        self._wheel: File | None = None
        self._has_log = False
        self._faults: dict[str, _Fault] = {}

    def load(self) -> int:
        """Load the files before the log is read; return the number of bytes to check."""
        content = self._disk.read(self._checkpoint_path)
        if content is not None and len(content) != FILE_SIZE:
            self._fault("checkpoint", f"the checkpoint has {len(content)} bytes, expected {FILE_SIZE}")
        self._checkpoint.load()
        try:
            self._metrics.load()
        except (StoreDamaged, OSError) as error:
            self._fault("metrics", str(error))
        try:
            self._log.load()
            self._has_log = self._log.end > self._log.first
        except (StoreDamaged, OSError) as error:
            self._fault("log", str(error))
        return self._log_size + self._load_wheel()

    @property
    def _log_size(self) -> int:
        return max(0, min(self._log.end, self._checkpoint.log_position) - self._log.first) if self._has_log else 0

    def _load_wheel(self) -> int:
        try:
            self._wheel = self._disk.open(self._wheel_path)
        except FileNotFoundError:
            return 0
        size = self._wheel.size()
        if size in (0, self._wheel_size):
            return size
        self._fault("wheel", f"the wheel has {size} bytes, expected {self._wheel_size}")
        self.close()
        return 0

    def compare(self, segments: Segments, max_offsets: Mapping[tuple[str, int], int], meter: Meter) -> None:
        """Check units and slots, after the commit log was read."""
        try:
            end = self._compare_units(segments, meter) if self._has_log else 0
            self._compare_checkpoint(end, max_offsets.get((TIMER_TOPIC, 0), 0))
            self._compare_slots(end, meter)
        except OSError as error:
            self._fault("reading", str(error))
        for kind, fault in self._faults.items():
            more = f", and {fault.count - 1} more like this" if fault.count > 1 else ""
            # Only statistics depend on the number of messages in a slot.
            tell = self._report.notes.append if kind == "count" else self._report.complain_if_clean
            tell(f"timer: {fault.first}{more}")

    def close(self) -> None:
        self._log.close()
        if self._wheel is not None:
            self._wheel.close()
            self._wheel = None

    def _compare_units(self, segments: Segments, meter: Meter) -> int:
        """Check all units and return their end."""
        end = seen = self._log.first
        for position, unit in self._log.units(self._log.first):
            self._report.timer_units += 1
            end = position + UNIT_SIZE
            meter.add(min(end, self._log.first + self._log_size) - min(seen, self._log.first + self._log_size))
            seen = end
            if not self._is_known(segments, unit):
                self._fault(
                    "record",
                    f"the unit at {position} points to a message at {unit.physical_offset}, "
                    "but there is no such record",
                )
        return end

    def _is_known(self, segments: Segments, unit: Unit) -> bool:
        """Whether the commit log has, or had, the message of a unit."""
        if unit.physical_offset < max(segments.first_offset, self._report.first_offset):
            return True
        try:
            head = segments.read(unit.physical_offset, _SIZE_AND_OFFSET.size)
        except FileNotFoundError:
            # Expired and deleted during the check.
            return True
        if len(head) < _SIZE_AND_OFFSET.size:
            return False
        return _SIZE_AND_OFFSET.unpack(head) == (unit.size, unit.physical_offset)

    def _compare_checkpoint(self, end: int, queue_end: int) -> None:
        checkpoint = self._checkpoint
        if checkpoint.log_position > end:
            self._fault("end", f"the checkpoint has units up to {checkpoint.log_position}, but they end at {end}")
        if checkpoint.queue_offset > queue_end:
            self._fault(
                "queue", f"entered up to {checkpoint.queue_offset} of queue {TIMER_TOPIC}/0, which ends at {queue_end}"
            )
        fields = checkpoint.read_time, checkpoint.log_position, checkpoint.queue_offset
        if min(fields) < 0 or checkpoint.wheel_precision <= 0:
            self._fault("checkpoint", f"the checkpoint has impossible values: {fields}")

    def _compare_slots(self, end: int, meter: Meter) -> None:
        """Follow the chain of each pending slot."""
        precision = max(1, self._checkpoint.wheel_precision)
        first_moment = max(1, self._checkpoint.read_time // precision)
        size = 0 if self._wheel is None else self._wheel.size()
        for start in range(0, size, len(_NOTHING)):
            assert self._wheel is not None
            chunk = self._wheel.read(start, len(_NOTHING))
            meter.add(len(chunk))
            if chunk == _NOTHING[: len(chunk)]:
                continue
            for number, (moment, first, last, count, _) in enumerate(SLOT.iter_unpack(chunk), start // SLOT.size):
                if moment >= first_moment:
                    self._compare_slot(number, moment, first, last, count, end, precision)

    def _compare_slot(
        self, number: int, moment: int, first: int, last: int, count: int, end: int, precision: int
    ) -> None:
        self._report.timer_slots += 1
        where = f"slot {number}, due at {moment * precision},"
        slots = self._wheel_size // SLOT.size
        if moment % slots != number:
            self._fault("place", f"{where} belongs in slot {moment % slots}")
            return
        position, found = last, 0
        while position >= self._log.first:
            unit = self._log.unit(position) if position < end else None
            if unit is None:
                self._fault("chain", f"{where} points to {position}, but there is no unit")
                return
            if unit.time // precision != moment:
                self._fault("moment", f"{where} points to the unit at {position}, which is due at {unit.time}")
                return
            found += -1 if unit.is_recall else 1
            if position == first:
                break
            position = unit.previous
        if position != first and first >= self._log.first:
            self._fault("first", f"{where} begins at {first}, but its chain does not reach it")
        elif position == first and found != count:
            self._fault("count", f"{where} has {count} messages, but its chain has {found}")

    def _fault(self, kind: str, text: str) -> None:
        self._faults.setdefault(kind, _Fault(text)).count += 1
