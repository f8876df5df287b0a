"""Limits of a pull, messages it leaves out, and the offset at which the next one continues."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.message.records.summary import peek
from kerolox.message.tags import tags_code
from kerolox.runtime.files import RealDisk
from kerolox.store.config import BrokerRole
from kerolox.store.log.scan import Damage
from kerolox.store.queue import lookup
from kerolox.store.queue.lookup import PULL_SIZE_MAX, PullBounds, bounds_of
from kerolox.store.reader import GetResult, GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import SEGMENT_SIZE, config, draft, draft_of_size, opened, put


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def big_store(disk: SimulatedDisk, **settings: object) -> Store:
    return opened(
        disk, config(mapped_file_size_commit_log=1024 * 1024, mapped_file_size_consume_queue=20_000, **settings)
    )


def queue_offsets(got: GetResult) -> list[int]:
    return [peek(record, check_crc=True).queue_offset for record in got.records]


def test_the_default_limits_are_those_of_java() -> None:
    bounds = bounds_of(config(), physical_memory=1000)

    assert bounds == PullBounds((32, 262144), (8, 65536), 400, 800)


def test_a_pull_from_memory_returns_32_messages_or_256_kib(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(1000) for _ in range(40)])
    put(store, *[draft_of_size(100_000, "large") for _ in range(4)])

    assert store.reader.get("t", 0, 0, count_max=100).next_offset == 32
    assert store.reader.get("t", 0, 32, count_max=100).next_offset == 40
    assert store.reader.get("large", 0, 0, count_max=100).next_offset == 2


async def test_pulls_from_mapped_files_equal_pulls_from_unmapped_ones(tmp_path: Path, disk: SimulatedDisk) -> None:
    """On a real disk the files of the log are mapped, and most pulls take the fast path."""
    settings = {"mapped_file_size_commit_log": 1024 * 1024, "mapped_file_size_consume_queue": 20 * 10}
    seen = opened(RealDisk(), config(**settings, store_path_root_dir=tmp_path / "store"))
    others = opened(disk, config(**settings))
    appends = [draft_of_size(700 + 400 * (number % 7), "tu"[number % 3 == 0]) for number in range(1500)]
    for number in range(0, len(appends), 5):
        for store in (seen, others):
            put(
                store,
                *(msgspec.structs.replace(each, records=each.records[:]) for each in appends[number : number + 5]),
            )
            if number % 40 == 0:
                store.queues.flush()
    for store in (seen, others):
        put(store, *(draft_of_size(200 + 300 * (number % 5), "v") for number in range(600)))

    for topic in "tuv":
        for offset in range(0, 520, 3):
            for count, size in ((32, PULL_SIZE_MAX), (1, 1), (20, 12_345), (100, 40_000)):
                got, expected = (
                    store.reader.get(topic, 0, offset, count_max=count, bytes_max=size) for store in (seen, others)
                )
                assert b"".join(got.runs) == b"".join(expected.runs), (topic, offset, count, size)
                assert msgspec.structs.replace(got, runs=[]) == msgspec.structs.replace(expected, runs=[])
    assert queue_offsets(seen.reader.get("u", 0, 5)) == list(range(5, 37))
    await seen.close()


def test_a_pull_from_disk_returns_8_messages_or_64_kib(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(1000) for _ in range(40)])
    store.reader.bounds = msgspec.structs.replace(store.reader.bounds, memory_size=10_000)

    old = store.reader.get("t", 0, 0)
    young = store.reader.get("t", 0, 30)
    between = store.reader.get("t", 0, 20)

    assert (old.next_offset, old.suggests_slave) == (8, True)
    assert (young.next_offset, young.suggests_slave) == (40, False)
    # The first message in memory is the 30th; eight are found before it is reached.
    assert (between.next_offset, between.suggests_slave) == (28, True)
    # With seven on disk, the limits for memory apply from then on.
    assert store.reader.get("t", 0, 23).next_offset == 40
    put(store, *[draft_of_size(30_000) for _ in range(4)])
    assert store.reader.get("t", 0, 40).next_offset == 42


def test_the_first_message_is_returned_whatever_the_limits(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(300_000) for _ in range(2)])

    for count_max, bytes_max in ((32, PULL_SIZE_MAX), (0, 1), (-1, -1)):
        assert store.reader.get("t", 0, 0, count_max=count_max, bytes_max=bytes_max).next_offset == 1


def test_the_smallest_byte_limit_is_one_hundred(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(95) for _ in range(2)])

    assert store.reader.get("t", 0, 0, bytes_max=0).next_offset == 1
    store = big_store(SimulatedDisk())
    put(store, *[draft_of_size(92) for _ in range(2)])
    assert store.reader.get("t", 0, 0, bytes_max=184).next_offset == 2


def test_adjacent_records_come_in_one_run(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(1000) for _ in range(10)])

    got = store.reader.get("t", 0, 2)

    assert (len(got.runs), got.count, got.size) == (1, 8, 8000)
    assert b"".join(got.runs) == b"".join(got.records)
    assert queue_offsets(got) == list(range(2, 10))


def test_a_record_filter_gets_whole_records_and_the_pull_continues_until_it_is_full(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft(b"%d" % number, TAGS="red" if number % 2 else "blue") for number in range(100)])
    red = tags_code(b"red")
    seen: list[int] = []

    def wants(record: bytes) -> bool:
        seen.append(peek(record, check_crc=True).queue_offset)
        return seen[-1] % 10 == 1

    got = store.reader.get("orders", 0, 0, count_max=3, matches=lambda code, _: code == red, wants=wants)

    assert queue_offsets(got) == [1, 11, 21]
    assert seen == list(range(1, len(seen) * 2, 2))
    # The pull was full before the next entry was examined, although that one would not have matched.
    assert got.next_offset == 22
    nothing = store.reader.get("orders", 0, 0, wants=lambda _: False)
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 100)


@pytest.mark.parametrize(("size", "at_once"), [(1000, 32), (20_000, 4), (70_000, 1)])
def test_slow_filtering_ends_the_pull_and_the_next_pull_continues(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, size: int, at_once: int
) -> None:
    """Other requests wait meanwhile; the bytes filtered between two looks at the clock are limited, too."""
    store = big_store(disk, pull_look_millis_max=50)
    appends = [draft_of_size(size) for _ in range(200)]
    put(store, *appends)
    now = 0.0
    judged: list[bytes] = []

    def wants(record: bytes) -> bool:
        nonlocal now
        now += 0.030
        judged.append(record)
        return len(judged) == 150

    monkeypatch.setattr(lookup, "perf_counter", lambda: now)

    offset = 0
    results: list[GetResult] = []
    while offset < 150:
        before = len(judged)
        got = store.reader.get("t", 0, offset, count_max=4096, wants=wants)
        assert 0 < len(judged) - before <= max(at_once, 2)
        assert got.next_offset == len(judged)
        offset = got.next_offset
        results.append(got)

    statuses = [got.status for got in results]
    assert statuses == [GetStatus.NO_MATCHED_MESSAGE] * (len(statuses) - 1) + [GetStatus.FOUND]
    assert results[-1].count == 1


def test_fast_filtering_examines_all_entries(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(1000) for _ in range(900)])
    monkeypatch.setattr(lookup, "perf_counter", lambda: 0.0)

    got = store.reader.get("t", 0, 0, wants=lambda _: False)

    assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)


def test_fillers_count_as_removed_messages(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, draft_of_size(4000))
    queue = store.queues.find("t", 0)
    queue.append(20, 6000, 100, 0)

    got = store.reader.get("t", 0, 1)

    assert (got.status, got.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 21)


def test_the_last_message_left_out_determines_the_status(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(1500) for _ in range(10)])
    store.log.delete_before(9000)

    assert store.reader.get("t", 0, 0, wants=lambda _: False).status is GetStatus.NO_MATCHED_MESSAGE
    codes = iter([True, True, False])
    matches = lambda *_: next(codes, False)  # noqa: E731
    assert store.reader.get("t", 0, 0, matches=matches).status is GetStatus.NO_MATCHED_MESSAGE


def test_a_damaged_record_is_left_out_of_its_run(disk: SimulatedDisk) -> None:
    store = big_store(disk)
    put(store, *[draft_of_size(1000) for _ in range(5)])
    store.reader.load_damages([Damage(2000, 2001, "a test")])

    got = store.reader.get("t", 0, 0)

    assert (got.status, got.next_offset, len(got.runs)) == (GetStatus.FOUND, 5, 2)
    assert queue_offsets(got) == [0, 1, 3, 4]


def test_an_entry_with_an_absurd_size_is_not_read(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.fail("view", errno.ENOMEM)
    store = opened(disk, config(mapped_file_size_commit_log=4 << 20))
    put(store, draft_of_size(3 << 20))
    store.queues.find("t", 0).append(1, 100, (3 << 20) + 1, 0)
    reads: list[int] = []
    read = store.log.read

    def counted(offset: int, size: int) -> bytes:
        reads.append(size)
        return read(offset, size)

    monkeypatch.setattr(store.log, "read", counted)

    assert store.reader.get("t", 0, 0, count_max=1).size == 3 << 20
    assert reads == [36, 3 << 20]
    assert store.reader.get("t", 0, 1).status is GetStatus.MESSAGE_WAS_REMOVING
    assert reads == [36, 3 << 20, 36]
    assert store.reader.record_at(100, 2 << 20) is None
    assert reads == [36, 3 << 20, 36, 36]


def test_reading_continues_in_the_next_file_where_one_is_missing(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(100) for _ in range(20)])
    queue = store.queues.find("t", 0)
    queue.flush()
    queue._segments.delete_before(8 * 20)

    got = store.reader.get("t", 0, 3)

    assert (got.status, got.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 8)
    assert store.reader.get("t", 0, 8).next_offset == 20


def test_a_slave_does_not_correct_offsets_of_consumers(disk: SimulatedDisk) -> None:
    store = opened(disk)
    store.queues.find("empty", 0)
    put(store, *[draft() for _ in range(3)])
    store.queues.find("orders", 0).min_offset = 1
    cases = [("unknown", 7), ("empty", 7), ("orders", 0), ("orders", 3), ("orders", 7)]

    def next_offsets() -> list[int]:
        return [store.reader.get(topic, 0, offset).next_offset for topic, offset in cases]

    assert next_offsets() == [0, 0, 1, 3, 3]
    store.config.broker_role = BrokerRole.SLAVE
    assert next_offsets() == [7, 7, 0, 3, 7]
    store.config.offset_check_in_slave = True
    assert next_offsets() == [0, 0, 1, 3, 3]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), count_max=st.integers(1, 40), bytes_max=st.integers(100, 20_000))
def test_with_any_limits_each_message_is_returned_exactly_once(seed: int, count_max: int, bytes_max: int) -> None:
    chance = random.Random(seed)
    store = opened(SimulatedDisk())
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    for _ in range(60):
        made = draft_of_size(chance.choice((92, 150, 900, 3000)), queue_id=chance.randrange(2))
        put(store, made)
        sent[made.queue_id].append(bytes(made.records))
    assert store.log.end_offset > SEGMENT_SIZE
    for queue_id, expected in sent.items():
        found: list[bytes] = []
        offset = 0
        while offset < len(expected):
            got = store.reader.get("t", queue_id, offset, count_max=count_max, bytes_max=bytes_max)
            assert got.status is GetStatus.FOUND
            assert got.count == len(got.records) == got.next_offset - offset <= min(count_max, 32)
            assert got.count == 1 or got.size <= bytes_max
            following = expected[offset + got.count : offset + got.count + 1]
            is_full = got.count == min(count_max, 32) or any(got.size + len(record) > bytes_max for record in following)
            assert is_full or not following
            found += got.records
            offset = got.next_offset
        assert found == expected
