"""Offsets by time, compared with a linear search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.message.message import Message
from kerolox.message.records.record import encode
from kerolox.store.log.commit_log import Append
from kerolox.store.reader import Boundary
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import StillClock, draft, draft_of_size, opened, put

ALL = (Boundary.LOWER, Boundary.UPPER, Boundary.NEAREST)
# A few files of the log, and several of the queue.
SIZE = 700


def stored(times: list[int]) -> tuple[Store, StillClock]:
    """Return a store with one message at each of these times, in milliseconds after the start of the clock."""
    clock = StillClock()
    store = opened(SimulatedDisk(), clock=clock)
    for time in times:
        clock._now = time / 1000
        put(store, draft_of_size(SIZE))
    return store, clock


def offsets_at(store: Store, timestamp: int) -> tuple[int, ...]:
    return tuple(store.reader.offset_at("t", 0, timestamp, boundary) for boundary in ALL)


def expected(times: dict[int, int], end: int, timestamp: int, boundary: Boundary) -> set[int]:
    """Return all correct offsets, by a linear search over the existing messages."""
    if boundary is Boundary.LOWER:
        return {min((at for at, time in times.items() if time >= timestamp), default=end)}
    if boundary is Boundary.UPPER:
        return {max((at for at, time in times.items() if time <= timestamp), default=0)}
    nearest = min(abs(time - timestamp) for time in times.values())
    # Of two equally near ones, the earlier.
    time = min(time for time in times.values() if abs(time - timestamp) == nearest)
    return {at for at in times if times[at] == time}


def test_each_boundary_selects_its_message() -> None:
    store, _ = stored([1000, 1000, 2000, 3000, 3000, 5000])

    assert offsets_at(store, 500) == (0, 0, 0)
    assert offsets_at(store, 1000) == (0, 1, 0)
    assert offsets_at(store, 1400) == (2, 1, 1)
    assert offsets_at(store, 1500) == (2, 1, 1)
    assert offsets_at(store, 1501) == (2, 1, 2)
    assert offsets_at(store, 3000) == (3, 4, 3)
    assert offsets_at(store, 4000) == (5, 4, 4)
    assert offsets_at(store, 4001) == (5, 4, 5)
    assert offsets_at(store, 5000) == (5, 5, 5)
    assert offsets_at(store, 9000) == (6, 5, 5)
    assert offsets_at(store, -1) == (0, 0, 0)
    assert store.reader.offset_at("t", 0, 1400) == 2


def test_an_empty_queue_gives_offset_0() -> None:
    store, _ = stored([])
    store.queues.find("t", 0)

    assert offsets_at(store, 1000) == (0, 0, 0)
    assert store.reader.offset_at("unknown", 0, 1000) == 0


@settings(max_examples=150)
@given(
    steps=st.lists(st.sampled_from((0, 0, 1, 2, 5, 1000)), min_size=1, max_size=45),
    deleted=st.integers(0, 40) | st.just(0),
    hole=st.integers(0, 30) | st.just(0),
    timestamps=st.lists(st.integers(-5, 8000), min_size=1, max_size=12),
)
def test_results_equal_those_of_a_linear_search(
    steps: list[int], deleted: int, hole: int, timestamps: list[int]
) -> None:
    times = [1000 + sum(steps[: number + 1]) for number in range(len(steps))]
    store, clock = stored(times)
    known = dict(enumerate(times))
    queue = store.queues.find("t", 0)
    if hole:
        # Queue offsets without messages.
        clock._now = (times[-1] + 7) / 1000
        (appended,) = put(store, draft_of_size(4000, "gap"))
        store._queue_offsets["t", 0] = len(times) + hole
        (appended,) = put(store, draft_of_size(SIZE))
        known[appended.queue_offset] = times[-1] + 7
        assert appended.queue_offset == len(times) + hole == queue.max_offset - 1
    store.log.delete_before(deleted * SIZE)
    queue.delete_before(store.log.first_offset)
    known = {at: time for at, time in known.items() if at >= queue.min_offset}

    for timestamp in {*timestamps, *times, times[-1] + 3}:
        for boundary in ALL:
            found = store.reader.offset_at("t", 0, timestamp, boundary)
            assert found in expected(known, queue.max_offset, timestamp, boundary), (timestamp, boundary)


def test_entries_of_expired_records_are_ignored() -> None:
    store, _ = stored([1000 * number for number in range(1, 21)])
    store.log.delete_before(4096)
    first = store.log.first_offset
    kept = [number for number in range(20) if (store.reader.physical_offset("t", 0, number) or 0) >= first]

    assert kept[0] == 5
    assert offsets_at(store, 2000) == (5, 0, 5)
    assert offsets_at(store, 6000) == (5, 5, 5)
    assert offsets_at(store, 6400) == (6, 5, 5)
    assert offsets_at(store, 30_000) == (20, 19, 19)


@pytest.mark.parametrize("boundary", ALL)
def test_after_the_clock_was_set_back_the_result_is_an_offset_of_the_queue(boundary: Boundary) -> None:
    store, _ = stored([5000, 6000, 7000, 1000, 2000, 3000])

    assert all(0 <= store.reader.offset_at("t", 0, timestamp, boundary) <= 6 for timestamp in range(0, 9000, 500))


def test_store_times_of_messages_and_of_the_log() -> None:
    store, _ = stored([1000, 2000, 3000, 4000, 5000, 6000, 7000])
    reader = store.reader

    assert [reader.store_time("t", 0, offset) for offset in (-1, 0, 3, 6, 7)] == [-1, 1000, 4000, 7000, -1]
    assert (reader.earliest_time("t", 0), reader.earliest_log_time()) == (1000, 1000)
    store.log.delete_before(4096)
    store.queues.find("t", 0).delete_before(4096)
    assert (reader.earliest_time("t", 0), reader.earliest_log_time()) == (6000, 6000)
    assert reader.store_time("t", 0, 0) == -1
    assert (reader.earliest_time("unknown", 0), stored([])[0].reader.earliest_log_time()) == (-1, -1)


def test_the_store_time_of_a_record_with_ipv6_hosts_is_found() -> None:
    clock = StillClock()
    store = opened(SimulatedDisk(), clock=clock)
    clock._now = 7.5
    message = Message("six", b"body", born_host=bytes(range(20)), store_host=bytes(range(20)))

    put(store, draft(), Append("six", 0, encode(message)))

    assert store.reader.store_time("six", 0, 0) == store.reader.store_time("orders", 0, 0) == 7500
