"""A store against a simple model of it: puts, flushes, deletions, crashes and new beginnings in any order."""

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

from kerolox.store.configuration import FlushDiskType
from kerolox.store.reader import GetStatus
from tests.store.disks import SimulatedDisk
from tests.store.stores import StillClock, batch, config, draft, draft_of_size, new_store, run, without_threads

RUNS = int(os.environ.get("KEROLOX_MODEL_RUNS", "100"))

Queue = tuple[str, int]
queues = st.sampled_from([("a", 0), ("a", 1), ("b", 0)])
sizes = st.integers(100, 1800)


class StoreModel(RuleBasedStateMachine):
    """For each queue the records it has, by their offset; and how much of the log is durable."""

    @initialize(flush=st.sampled_from(FlushDiskType))
    def open(self, flush: FlushDiskType) -> None:
        self.disk = SimulatedDisk()
        self.clock = StillClock()
        self.settings = config(flush, file_reserved_time=0, delete_commit_log_files_interval=0)
        self.is_sync = flush is FlushDiskType.SYNC_FLUSH
        # Each record with the end of its place in the log.
        self.records: dict[Queue, list[tuple[int, bytes]]] = {}
        self.durable = 0
        self.deleted = 0
        # What was deleted with its topic is found by its keys as long as the log has it.
        self.removed: list[tuple[str, int, bytes]] = []
        # Ranges without a record, which a power cut has left; they stay as they are.
        self.damages: set[int] = set()
        self._open()

    def _open(self) -> None:
        self.store = new_store(self.disk, self.settings, self.clock)
        self.recovered = self.store.recover()
        self.new_damages = {damage.offset for damage in self.recovered.damages} - self.damages
        self.damages |= self.new_damages

    @rule(queue=queues, bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=4), key=st.integers(0, 3))
    def put(self, queue: Queue, bodies: list[bytes], key: int) -> None:
        self._put(queue, [draft(body, *queue, KEYS=f"k{key}") for body in bodies])

    @rule(queue=queues, count=st.integers(1, 5))
    def put_batch(self, queue: Queue, count: int) -> None:
        self._put(queue, [batch([b"x" * number for number in range(count)], *queue)])

    @rule(queue=queues, size=sizes, count=st.integers(1, 3))
    def put_large(self, queue: Queue, size: int, count: int) -> None:
        self._put(queue, [draft_of_size(size, *queue) for _ in range(count)])

    def _put(self, queue: Queue, drafts: list) -> None:  # type: ignore[type-arg]
        known = self.records.setdefault(queue, [])
        places = self.store.append(drafts)
        assert len(places) == len(drafts)
        for made, place in zip(drafts, places, strict=True):
            assert place.queue_offset == len(known)
            ends = (*made.starts[1:], len(made.records))
            for start, end in zip(made.starts, ends, strict=True):
                known.append((place.physical_offset + end, bytes(made.records[start:end])))

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
        run(self.store.behind.flush())
        self.durable = self.store.flusher.durable_offset

    @precondition(lambda self: self.store.log.end_offset > self.settings.mapped_file_size_commit_log)
    @rule(share=st.floats(0, 1))
    def delete_files(self, share: float) -> None:
        oldest = self.store.log.oldest(1000)
        self.settings.delete_file_batch_max = max(1, int(len(oldest) * share))
        self.store.retention.order()
        count = run(self.store.retention.clean())
        assert count == min(len(oldest), self.settings.delete_file_batch_max)
        self.deleted = self.store.log.first_offset
        if oldest:
            self.durable = self.store.flusher.durable_offset

    @rule(topic=st.sampled_from("ab"))
    def delete_topic(self, topic: str) -> None:
        self.flush_behind()
        run(self.store.topics.delete([topic]))
        for queue, known in self.records.items():
            if queue[0] == topic:
                self.removed += [(topic, *record) for record in known]
                known.clear()

    @rule()
    def stop_and_start(self) -> None:
        run(self.store.close())
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
        assert self.recovered.torn is None

    @rule(seed=st.integers(0, 1000), number=st.integers(0, 2))
    def cut_power(self, seed: int, number: int) -> None:
        """What was durable is there; of the rest some may be, and the model learns which."""
        before = self.durable
        self.disk = list(self.disk.after_power_cut(seed, count=number))[number]
        self._open()
        assert self.store.log.end_offset >= before
        end = self.durable = self.store.log.end_offset
        for known in self.records.values():
            while known and known[-1][0] > end:
                known.pop()
            lost = [
                offset
                for offset, (record_end, data) in enumerate(known)
                if data
                and record_end > self.deleted
                and self.store.reader.record_at(record_end - len(data), len(data)) != data
            ]
            assert all(known[offset][0] > before for offset in lost)
            assert not lost or self.new_damages
            while known and len(known) - 1 in lost:
                lost.remove(len(known) - 1)
                known.pop()
            for offset in lost:
                known[offset] = (known[offset][0], b"")

    @invariant()
    def all_that_may_be_seen_is(self) -> None:
        if not hasattr(self, "store"):
            return
        shown = self.store.flusher.durable_offset if self.is_sync else self.store.log.end_offset
        for queue, known in self.records.items():
            visible = [number for number, (end, _) in enumerate(known) if end <= shown]
            found = self.store.queues.get(*queue)
            assert (found.max_offset if found is not None else 0) == len(visible)
            if found is None:
                continue
            there = {number: known[number][1] for number in visible if known[number][0] > self.deleted}
            for number, data in there.items():
                got = self.store.reader.get(*queue, number, count_max=1)
                if data:
                    assert number >= found.min_offset
                    assert (got.status, got.records) == (GetStatus.FOUND, [data])
                else:
                    # Lost, and what is served in its place comes after it.
                    assert (
                        number < found.min_offset
                        or got.records == [data for after, data in there.items() if after > number and data][:1]
                    )

    @invariant()
    def keys_are_found(self) -> None:
        if not hasattr(self, "store"):
            return
        shown = self.store.flusher.durable_offset if self.is_sync else self.store.log.end_offset
        for key in range(4):
            mark = b"KEYS\x01k%d\x02" % key
            for topic in ("a", "b"):
                expected = {
                    end - len(data)
                    for (of_topic, _), known in self.records.items()
                    for end, data in known
                    if of_topic == topic and self.deleted < end <= shown and mark in data
                } | {
                    end - len(data)
                    for of_topic, end, data in self.removed
                    if of_topic == topic and self.deleted < end and mark in data
                }
                found = {
                    peeked.physical_offset for peeked in self.store.reader.find(topic, b"k%d" % key, count_max=10_000)
                }
                assert found == expected


@pytest.mark.timeout(0)
def test_a_store_does_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)

    run_state_machine_as_test(
        StoreModel,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=RUNS == 100,
        ),
    )
