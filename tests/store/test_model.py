"""A store against a simple model: puts, flushes, deletions, crashes and restarts in any order."""

import errno
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kerolox.message import sysflag
from kerolox.message.hosts import NO_HOST, pack
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.message.records.summary import peek
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreFull
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.scan import Damage
from kerolox.store.reader import GetStatus
from tests.crash.proofs import record_proof
from tests.store.disks import SimulatedDisk
from tests.store.oracle import verified
from tests.store.stores import StillClock, batch, config, draft, draft_of_size, fetched, new_store, run, without_threads

RUNS = int(os.environ.get("KEROLOX_MODEL_RUNS", "100"))

Queue = tuple[str, int]
# Its length needs two bytes, so its records have the V2 magic.
LONG_TOPIC = "%RETRY%" + "g" * 125
TOPICS = ("a", "b", LONG_TOPIC)
short_queues = st.sampled_from([("a", 0), ("a", 1), ("b", 0)])
queues = st.one_of(short_queues, st.just((LONG_TOPIC, 0)))
sizes = st.integers(100, 1800)
hosts = st.sampled_from([NO_HOST, pack("10.1.2.3", 10911), pack("fd00::1:2", 10911)])
shapes = st.sampled_from([(16, 24), (1, 5), (64, 1000)])


class StoreModel(RuleBasedStateMachine):
    """The model: the records of each queue, and how much of the log is durable."""

    runs = 0
    promised = 0

    @initialize(
        flush=st.sampled_from(FlushDiskType),
        log_size=st.sampled_from([4096, 5000, 16384, 1 << 17]),
        queue_entries=st.sampled_from([2, 8, 1000]),
        shape=shapes,
        mapped_size=st.sampled_from([0, 2000, 1 << 30]),
        lacks_cached_reads=st.booleans(),
    )
    def open(
        self,
        flush: FlushDiskType,
        log_size: int,
        queue_entries: int,
        shape: tuple[int, int],
        mapped_size: int,
        lacks_cached_reads: bool,
    ) -> None:
        self.disk = SimulatedDisk()
        self.lacks_cached_reads = lacks_cached_reads
        self.clock = StillClock()
        self.settings = config(
            flush,
            mapped_file_size_commit_log=log_size,
            mapped_file_size_consume_queue=20 * queue_entries,
            max_hash_slot_num=shape[0],
            max_index_num=shape[1],
            mapped_bytes_max=mapped_size,
            file_reserved_time=0,
            delete_commit_log_files_interval=0,
        )
        self.is_sync = flush is FlushDiskType.SYNC_FLUSH
        # Queue → its records, each with its physical end.
        self.records: dict[Queue, list[tuple[int, bytes]]] = {}
        # Half messages and rollbacks: in the log, but in no queue.
        self.unqueued: list[tuple[int, bytes]] = []
        self.durable = 0
        self.deleted = 0
        # Messages of failed writes, which may be after the end of the log until the next successful write.
        self.refused: list[tuple[Queue, list[bytes]]] = []
        # Messages of deleted topics are found by key as long as the log has them.
        self.removed: list[tuple[str, int, bytes]] = []
        # Damaged ranges left by power cuts; they do not change.
        self.damages: dict[int, Damage] = {}
        self._open()

    def _open(self) -> None:
        self.disk.lacks_cached_reads = self.lacks_cached_reads
        self.store = new_store(self.disk, self.settings, self.clock)
        self.recovered = self.store.recover()
        found = {damage.offset: damage for damage in self.recovered.damages}
        # The start of a known range may have been deleted.
        known = list(self.damages.values())
        self.new_damages = {at for at in found if not any(old.offset <= at < old.end_offset for old in known)}
        self.damages |= found
        self._verify()

    def _add_refused_but_stored(self) -> None:
        """Add refused messages that were stored after all, since the machine stopped before they were erased."""
        added: set[int] = set()
        for queue, together in self.refused:
            for data in together:
                # A record that was never written has physical offset 0, where another record is.
                offset = peek(data).physical_offset
                # Two attempts at the same offset leave one record.
                if self.store.reader.record_at(offset, len(data)) != data or offset in added:
                    break
                added.add(offset)
                self.records.setdefault(queue, []).append((offset + len(data), data))
        self.refused = []

    def _verify(self) -> None:
        assert not verified(self.disk, self.settings, self.damages.values()).is_clean

    @rule(queue=queues, bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=4), key=st.integers(0, 3))
    def put(self, queue: Queue, bodies: list[bytes], key: int) -> None:
        self._put(queue, [draft(body, *queue, KEYS=f"k{key}") for body in bodies])

    @rule(queue=queues, kind=st.sampled_from(range(0, 16, 4)), born=hosts, stored=hosts, key=st.integers(0, 3))
    def put_transaction(self, queue: Queue, kind: int, born: bytes, stored: bytes, key: int) -> None:
        topic, queue_id = queue
        properties = to_bytes({"KEYS": f"k{key} x", "UNIQ_KEY": f"{key:032d}", "TAGS": "t"})
        message = Message(topic, b"body", properties, queue_id, 0, kind, born_host=born, store_host=stored)
        append = Append(topic, queue_id, encode(message), is_queued=sysflag.is_queued(kind))
        if append.is_queued:
            self._put(queue, [append])
            return
        (position,) = self.store.append([append])
        assert position.queue_offset == 0
        self.refused = []
        self.unqueued.append((position.end_offset, bytes(append.records)))

    @rule(
        queue=queues,
        at=st.integers(0, 5),
        kinds=st.sampled_from(["write", "allocate", "truncate", "open", "write allocate truncate open"]),
        large=sizes,
    )
    def put_on_a_disk_without_room(self, queue: Queue, at: int, kinds: str, large: int) -> None:
        """Refused messages leave no trace; accepted ones are stored, but may become visible only when there is room."""
        appends = [draft(b"1" * 50, *queue, KEYS="k1"), draft(b"2" * large, *queue), draft(b"3", *queue, KEYS="k2")]
        self.disk.fail(kinds, errno.ENOSPC, at=at)
        try:
            positions = self.store.append(appends)
        except StoreFull:
            positions = []
        self.disk.heal()
        if positions:
            self._note(queue, appends[: len(positions)], positions)
        self.refused.append((queue, [bytes(append.records) for append in appends[len(positions) :]]))
        self.flush_behind()

    @rule(queue=queues, count=st.integers(1, 5))
    def put_batch(self, queue: Queue, count: int) -> None:
        self._put(queue, [batch([b"x" * number for number in range(count)], *queue)])

    @rule(queue=short_queues, size=sizes, count=st.integers(1, 3))
    def put_large(self, queue: Queue, size: int, count: int) -> None:
        self._put(queue, [draft_of_size(size, *queue) for _ in range(count)])

    def _put(self, queue: Queue, appends: list[Append]) -> None:
        self._note(queue, appends, self.store.append(appends))

    def _note(self, queue: Queue, appends: list[Append], positions: list[Appended]) -> None:
        known = self.records.setdefault(queue, [])
        self.refused = []
        assert len(positions) == len(appends)
        for append, position in zip(appends, positions, strict=True):
            assert position.queue_offset == len(known)
            ends = (*append.starts[1:], len(append.records))
            for start, end in zip(append.starts, ends, strict=True):
                known.append((position.physical_offset + end, bytes(append.records[start:end])))

    @rule(seconds=st.integers(0, 20))
    def time_passes(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule()
    def flush(self) -> None:
        run(self.store.flusher.flush())
        self.durable = self.store.log.end_offset
        assert self.store.flusher.durable_offset == self.durable

    @rule()
    def flush_behind(self) -> None:
        run(self.store.flush_behind.flush())
        self.durable = self.store.flusher.durable_offset
        self._verify()

    @precondition(lambda self: self.store.log.end_offset > self.settings.mapped_file_size_commit_log)
    @rule(share=st.floats(0, 1))
    def delete_files(self, share: float) -> None:
        oldest = self.store.log.oldest(1000)
        self.settings.delete_file_batch_max = max(1, int(len(oldest) * share))
        self.store.retention.request_deletion()
        count = run(self.store.retention.clean())
        assert count == min(len(oldest), self.settings.delete_file_batch_max)
        self.deleted = self.store.log.first_offset
        if oldest:
            self.durable = self.store.flusher.durable_offset
        self._verify()

    @rule(topic=st.sampled_from("ab"))
    def delete_topic(self, topic: str) -> None:
        self.flush_behind()
        run(self.store.topic_cleanup.delete([topic]))
        self.refused = []
        for queue, known in self.records.items():
            if queue[0] == topic:
                self.removed += [(topic, *record) for record in known]
                known.clear()

    @rule()
    def stop_and_start(self) -> None:
        run(self.store.close())
        self.refused = []
        assert verified(self.disk, self.settings, self.damages.values()).is_clean
        self._open()
        self.durable = self.store.log.end_offset
        assert not self.new_damages
        assert self.recovered.torn is None

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self._open()
        self.durable = self.store.log.end_offset
        assert not self.new_damages
        assert self.recovered.torn is None or self.refused
        self._add_refused_but_stored()

    @rule(seed=st.integers(0, 1000), number=st.integers(0, 2))
    def cut_power(self, seed: int, number: int) -> None:
        """Durable messages survive; others may, and the model learns which."""
        before = self.durable
        self.disk = list(self.disk.after_power_cut(seed, count=number))[number]
        self._open()
        assert self.store.log.end_offset >= before
        self._add_refused_but_stored()
        end = self.durable = self.store.log.end_offset
        there = [(record_end, data) for record_end, data in self.unqueued if self._is_there(record_end, data)]
        assert all(lost[0] > before for lost in self.unqueued if lost not in there)
        self.unqueued = there
        for known in self.records.values():
            while known and known[-1][0] > end:
                known.pop()
            lost = [
                offset
                for offset, (record_end, data) in enumerate(known)
                if data and not self._is_there(record_end, data)
            ]
            assert all(known[offset][0] > before for offset in lost)
            assert not lost or self.new_damages
            while known and len(known) - 1 in lost:
                lost.remove(len(known) - 1)
                known.pop()
            for offset in lost:
                known[offset] = (known[offset][0], b"")

    def _is_there(self, record_end: int, data: bytes) -> bool:
        """Whether the log has a record, or had it before its file was deleted."""
        return record_end <= self.deleted or self.store.reader.record_at(record_end - len(data), len(data)) == data

    def teardown(self) -> None:
        StoreModel.runs += 1
        if hasattr(self, "store"):
            StoreModel.promised += sum(map(len, self.records.values())) + len(self.unqueued)

    @invariant()
    def all_visible_messages_are_served(self) -> None:
        if not hasattr(self, "store"):
            return
        visible_end = self.store.flusher.durable_offset if self.is_sync else self.store.log.end_offset
        for queue, known in self.records.items():
            visible = [number for number, (end, _) in enumerate(known) if end <= visible_end]
            found = self.store.queues.get(*queue)
            assert (found.max_offset if found is not None else 0) == len(visible)
            if found is None:
                continue
            there = {number: known[number][1] for number in visible if known[number][0] > self.deleted}
            served = [data for number, data in there.items() if data and number >= found.min_offset]
            if served:
                got = run(fetched(self.store, *queue, max(found.min_offset, min(there))))
                assert got.records == served[: max(1, got.count)]
            for number, data in there.items():
                got = self.store.reader.get(*queue, number, count_max=1)
                if data:
                    assert number >= found.min_offset
                    assert (got.status, got.records) == (GetStatus.FOUND, [data])
                else:
                    # Lost: the next message is served instead.
                    assert (
                        number < found.min_offset
                        or got.records == [data for after, data in there.items() if after > number and data][:1]
                    )

    @invariant()
    def keys_are_found(self) -> None:
        if not hasattr(self, "store"):
            return
        visible_end = self.store.flusher.durable_offset if self.is_sync else self.store.log.end_offset
        # Rollbacks are not indexed.
        halves = [(end, data) for end, data in self.unqueued if peek(data).sys_flag & sysflag.ROLLBACK == 4]
        for key in range(4):
            mark = b"KEYS\x01k%d" % key
            for topic in TOPICS:
                known = [item for (of_topic, _), items in self.records.items() if of_topic == topic for item in items]
                known += [(end, data) for end, data in halves if peek(data).topic == topic]
                known += [(end, data) for of_topic, end, data in self.removed if of_topic == topic]
                expected = {
                    end - len(data) for end, data in known if self.deleted < end <= visible_end and mark in data
                }
                found = {
                    peeked.physical_offset for peeked in self.store.reader.find(topic, b"k%d" % key, count_max=10_000)
                }
                assert found == expected


@pytest.mark.timeout(0)
def test_a_store_behaves_like_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)

    run_state_machine_as_test(
        StoreModel,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
            derandomize=RUNS == 100,
        ),
    )
    record_proof("model", runs=StoreModel.runs, promised=StoreModel.promised)
