"""The machine stops after every changing operation, and the store is reopened."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from kerolox.message.records.summary import peek
from kerolox.store.config import FlushDiskType
from kerolox.store.log.commit_log import Append
from kerolox.store.store import Store
from tests.crash.proofs import record_proof
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.oracle import verified
from tests.store.stores import (
    StillClock,
    batch,
    config,
    draft,
    draft_of_size,
    new_store,
    numbered_records,
    opened,
    put,
    run,
    without_threads,
)

QUEUES = [("orders", 0), ("orders", 1), ("t", 0)]
# Disk images checked after each power cut; KEROLOX_CRASH_IMAGES for more.
IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "2"))

pytestmark = pytest.mark.usefixtures("threadless")
MessageKey = tuple[str, int, int]


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


@dataclass
class History:
    """The messages that were put, and those that were acknowledged."""

    written: dict[MessageKey, bytes] = field(default_factory=dict)
    acknowledged: set[MessageKey] = field(default_factory=set)
    # Queue → the offset after all acknowledged messages, whether or not they still exist.
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def acknowledge(self, keys: Iterable[MessageKey]) -> None:
        for topic, queue_id, offset in keys:
            self.acknowledged.add((topic, queue_id, offset))
            self.next_offsets[topic, queue_id] = max(offset + 1, self.next_offsets.get((topic, queue_id), 0))

    def delete_before(self, physical_offset: int) -> None:
        """Messages before this offset may be gone from now on."""
        self.acknowledged = {at for at in self.acknowledged if offset_of(self.written[at]) >= physical_offset}


class Script:
    """Puts, flushes and rolls files on a disk that may stop at any operation."""

    def __init__(self, disk: SimulatedDisk, flush: FlushDiskType) -> None:
        self.disk = disk
        self.history = History()
        self._clock = StillClock()
        self._is_async = flush is FlushDiskType.ASYNC_FLUSH
        self.store = new_store(disk, config(flush), self._clock)

    async def run(self) -> None:
        self.store.recover()
        for number in range(4):
            await self._write(number)
        await self.store.flush_behind.flush()
        self._clock.move(10)
        await self._prepare()
        # Rolls to the next file, with a blank before it.
        self._put(draft_of_size(1500))
        self._put(draft_of_size(1500))
        await self._flush()
        await self._prepare()
        self._put(draft(b"on", "orders", 1, KEYS="roll"), draft_of_size(3000), draft(b"again", "orders", 1))
        self._clock.move(10)
        await self._flush()
        await self.store.flush_behind.flush()
        for number in range(4, 7):
            await self._write(number)
        await self.store.flush_behind.flush()
        await self.store.close()
        # Restart.
        self.store = new_store(self.disk, self.store.config, self._clock)
        self.store.recover()
        await self._write(7)
        await self._prepare()
        self._put(draft_of_size(4000))
        await self._flush()
        self._clock.move(10)
        self._put(draft(b"last"), draft_of_size(2500))
        await self._flush()
        # This file is never used.
        await self._prepare()
        await self.store.flush_behind.flush()
        self._put(draft(b"late", "orders", 1, KEYS="both"))
        await self._delete()
        self._put(draft(b"later", "orders", 1))
        await self._flush()
        await self.store.flush_behind.flush()

    async def _delete(self) -> None:
        """Delete all files of the log but the last, and the queue and index files for them."""
        oldest = self.store.log.oldest(100)
        assert len(oldest) > 2
        self.history.delete_before(oldest[-1][0])
        self.store.config.file_reserved_time = self.store.config.delete_commit_log_files_interval = 0
        self.store.retention.request_deletion()
        count = await self.store.retention.clean()
        assert count == len(oldest)
        assert self.store.queues.find("t", 0).min_offset > 0
        self._note_durable()

    async def _prepare(self) -> None:
        """Allocate the next file, as the background task does; it must be due, or the test checks nothing."""
        assert self.store.allocator.is_due
        assert await self.store.allocator.prepare() is None

    async def _write(self, number: int) -> None:
        self._put(draft(b"a" * 300 * (number % 3), TAGS="red", KEYS=f"k{number} both", UNIQ_KEY=f"{number:032d}"))
        self._put(batch([b"b", b"c" * number, b"d"], "orders", 1), draft(b"e" * 100))
        self._clock.move(0.5)
        await self._flush()

    def _put(self, *appends: Append) -> None:
        try:
            positions = put(self.store, *appends)
        except Stopped:
            # They may or may not be stored.
            for append in appends:
                self._note(append)
            raise
        for append, position in zip(appends, positions, strict=True):
            noted = self._note(append)
            assert noted[0] == (append.topic, append.queue_id, position.queue_offset)
            if self._is_async:
                self.history.acknowledge(noted)

    def _note(self, append: Append) -> list[MessageKey]:
        ends = (*append.starts[1:], len(append.records))
        noted = []
        for start, end in zip(append.starts, ends, strict=True):
            data = bytes(append.records[start:end])
            at = append.topic, append.queue_id, peek(data).queue_offset
            # A record that was never appended still has queue offset 0.
            self.history.written.setdefault(at, data)
            noted.append(at)
        return noted

    async def _flush(self) -> None:
        await self.store.flusher.flush()
        self._note_durable()

    def _note_durable(self) -> None:
        if self.store.flusher.failure is None:
            first = self.store.log.first_offset
            self.history.acknowledge([at for at, data in self.history.written.items() if offset_of(data) >= first])


def run_until(stop_after: int | None, flush: FlushDiskType) -> Script:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    script = Script(disk, flush)
    try:
        run(script.run())
    except Stopped:
        assert stop_after is not None
    else:
        assert stop_after is None
    return script


def check(disk: SimulatedDisk, history: History, flush: FlushDiskType, *, keeps_acknowledged: bool = True) -> None:
    """Open the remaining files twice and check every message."""
    clock = StillClock(1_700_001_000_000)
    store = new_store(disk, config(flush), clock)
    recovered = store.recover()
    verified(disk, store.config, recovered.damages)
    contents = served(store)
    for at, data in contents.items():
        assert history.written[at] == data, at
    if keeps_acknowledged:
        assert history.acknowledged <= contents.keys()
    for topic, queue_id in QUEUES:
        offsets = [offset for at_topic, at_queue, offset in contents if (at_topic, at_queue) == (topic, queue_id)]
        if not recovered.damages and offsets:
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        queue = store.queues.get(topic, queue_id)
        if keeps_acknowledged and queue is not None:
            assert queue.max_offset >= history.next_offsets.get((topic, queue_id), 0)
    found = {peeked.physical_offset for key in (b"both", b"roll") for peeked in store.reader.find("orders", key)}
    assert found == {offset_of(data) for data in contents.values() if b"KEYS\x01" in data}
    # New messages come after the existing ones.
    (position,) = put(store, draft(b"after", "orders", 1))
    assert position.queue_offset >= max((at[2] for at in contents if at[:2] == ("orders", 1)), default=-1) + 1
    run(store.close())
    assert verified(disk, store.config, recovered.damages).is_clean
    again = opened(disk, config(flush), clock)
    assert served(again) == {
        **contents,
        ("orders", 1, position.queue_offset): again.log.read(position.physical_offset, 103),
    }


def served(store: Store) -> dict[MessageKey, bytes]:
    return {
        (topic, queue_id, offset): data
        for topic, queue_id in QUEUES
        for offset, data in numbered_records(store, topic, queue_id)
    }


def offset_of(data: bytes) -> int:
    return int.from_bytes(data[28:36])


def every_stop(flush: FlushDiskType) -> Iterator[tuple[int, Script]]:
    operations = run_until(None, flush).disk.operations
    assert operations > 100
    for stop_after in range(operations):
        yield stop_after, run_until(stop_after, flush)


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_killed_process_loses_no_acknowledged_message(flush: FlushDiskType) -> None:
    runs = promised = 0
    for stop_after, script in every_stop(flush):
        with with_note(f"killed after {stop_after}"):
            check(script.disk.after_kill(), script.history, flush)
        runs += 1
        promised += len(script.history.acknowledged)
    record_proof(f"killed, {flush.value}", runs=runs, promised=promised)


def test_under_sync_flush_a_power_cut_loses_no_acknowledged_message() -> None:
    flush = FlushDiskType.SYNC_FLUSH
    runs = promised = 0
    for stop_after, script in every_stop(flush):
        for number, left in enumerate(script.disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with with_note(f"cut after {stop_after}, image {number}"):
                check(left, script.history, flush)
            runs += 1
            promised += len(script.history.acknowledged)
    record_proof("power cut, SYNC_FLUSH", runs=runs, promised=promised)


def test_under_async_flush_a_power_cut_leaves_whole_messages_and_reports_all_gaps() -> None:
    flush = FlushDiskType.ASYNC_FLUSH
    runs = 0
    for stop_after, script in every_stop(flush):
        for number, left in enumerate(script.disk.after_power_cut(seed=stop_after, count=IMAGES // 2)):
            with with_note(f"cut after {stop_after}, image {number}"):
                check(left, script.history, flush, keeps_acknowledged=False)
            runs += 1
    record_proof("power cut, ASYNC_FLUSH", runs=runs)


@contextlib.contextmanager
def with_note(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
