"""Messages by key, as QUERY_MESSAGE returns them."""

from __future__ import annotations

import pytest

from kerolox.message.records.summary import peek
from kerolox.store.index import query
from kerolox.store.reader import QueryResult
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import StillClock, config, draft, opened, put

LARGE = {"mapped_file_size_commit_log": 1024 * 1024, "max_index_num": 2000}


def keyed(count: int, **settings: object) -> tuple[Store, StillClock]:
    """Return a store with messages of one key, one per second from 1000 s on."""
    clock = StillClock()
    store = opened(SimulatedDisk(), config(**{**LARGE, **settings}), clock)
    for number in range(count):
        clock._now = 1000.0 + number
        put(store, draft(b"%d" % number, KEYS="k", UNIQ_KEY=f"u{number}", TAGS="red" if number % 2 else "blue"))
    return store, clock


def numbers(result: QueryResult) -> list[int]:
    return [peek(record).queue_offset for record in result.records]


def test_the_newest_records_are_found_in_log_order() -> None:
    store, _ = keyed(100)

    assert numbers(store.reader.query("orders", b"k")) == list(range(68, 100))
    assert numbers(store.reader.query("orders", b"k", count_max=3)) == [97, 98, 99]
    assert numbers(store.reader.query("orders", b"k", count_max=1000)) == list(range(36, 100))
    assert numbers(store.reader.query("orders", b"u7", is_unique_key=True)) == [7]
    assert numbers(store.reader.query("orders", b"k", is_unique_key=True, count_max=64)) == list(range(68, 100))


def test_a_time_range_limits_the_result() -> None:
    store, _ = keyed(20)

    span = store.reader.query("orders", b"k", begin_timestamp=1_005_000, end_timestamp=1_008_000)

    assert numbers(span) == [5, 6, 7, 8]


def test_a_result_has_the_end_of_the_index_unless_it_is_empty() -> None:
    store, _ = keyed(3)
    last = store.reader.physical_offset("orders", 0, 2)

    found = store.reader.query("orders", b"u0")

    assert (found.index_timestamp, found.index_physical_offset) == (1_002_000, last)
    assert store.reader.query("orders", b"unknown") == QueryResult([], 0, 0)
    without, _ = keyed(1, message_index_enable=False)
    assert without.reader.query("orders", b"k") == QueryResult([], 0, 0)


def test_expired_records_are_left_out_but_the_end_of_the_index_is_returned() -> None:
    store, clock = keyed(0, mapped_file_size_commit_log=4096)
    for _ in range(10):
        put(store, draft(b"x" * 1000, KEYS="k"))
    store.log.delete_before(4096)

    result = store.reader.query("orders", b"k")

    assert numbers(result) == list(range(3, 10))
    assert store.reader.query("orders", b"k", count_max=1).index_timestamp == clock.millis()


def test_tags_are_indexed_as_in_5_5() -> None:
    store, _ = keyed(10)

    assert numbers(store.reader.query_tag("orders", b"red")) == [1, 3, 5, 7, 9]
    assert numbers(store.reader.query_tag("orders", b"red", count_max=1, end_timestamp=1_006_000)) == [5]
    assert numbers(store.reader.query("orders", b"T#blue", count_max=2)) == [6, 8]
    # A query for keys does not find them.
    assert numbers(store.reader.query("orders", b"red")) == []
    assert store.reader.find("orders", b"T#red") == []


def test_a_result_is_small_enough_for_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = keyed(10)
    size = len(store.reader.record_at(0) or b"")
    monkeypatch.setattr(query, "_RESPONSE_SIZE_MAX", size * 3 + 5)

    assert numbers(store.reader.query("orders", b"k")) == [7, 8, 9]
    monkeypatch.setattr(query, "_RESPONSE_SIZE_MAX", 1)
    assert numbers(store.reader.query("orders", b"k")) == [9]


async def test_a_search_equals_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_RESPONSE_SIZE_MAX", 10_000)
    store, _ = keyed(100)
    lookup, reader = store.lookup, store.reader

    for asked in ({"count_max": 3}, {"count_max": 1000}, {"is_unique_key": True}, {"end_timestamp": 1}):
        assert await lookup.query("orders", b"k", **asked) == reader.query("orders", b"k", **asked)
    assert (await lookup.query("orders", b"unknown")).records == []
