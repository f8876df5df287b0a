"""Shares and partitions."""

from hypothesis import given
from hypothesis import strategies as st

from kerolox.spark.read.offset_json import QueueRange
from kerolox.spark.read.partitioning import fair_shares, partitions_of, shares_of_bytes

COUNTS = st.dictionaries(st.integers(0, 20), st.integers(0, 1000), max_size=12)


def _range(queue_id: int, start: int, end: int) -> QueueRange:
    return QueueRange("orders", "broker-a", queue_id, start, end)


@given(COUNTS, st.integers(1, 500), st.integers(0, 100))
def test_shares_use_up_the_limit_and_exceed_neither_it_nor_the_available_count(
    available: dict[int, int], limit: int, turn: int
) -> None:
    shares = fair_shares(available, limit, turn)

    assert sum(shares.values()) == min(limit, sum(available.values()))
    assert all(0 < share <= available[key] for key, share in shares.items())


@given(COUNTS, st.integers(1, 500))
def test_every_key_gets_a_share_if_the_limit_allows_it(available: dict[int, int], limit: int) -> None:
    waiting = {key for key, count in available.items() if count}

    assert len(fair_shares(available, limit)) == min(len(waiting), limit)


def test_shares_are_in_proportion() -> None:
    assert fair_shares({"a": 3001, "b": 1001, "c": 1}, 403) == {"a": 301, "b": 101, "c": 1}


def test_keys_take_turns_if_the_limit_is_too_small_for_all() -> None:
    available = {"a": 100, "b": 100, "c": 1}

    assert {key for turn in range(3) for key in fair_shares(available, 1, turn)} == {"a", "b", "c"}


def test_shares_of_bytes_depend_on_message_sizes() -> None:
    shares = shares_of_bytes({"small": 10_000, "large": 100}, {"small": 10, "large": 1000.0}, 20_000)

    assert shares == {"small": 1000, "large": 10}


def test_a_message_larger_than_the_limit_is_read_anyway() -> None:
    assert shares_of_bytes({"a": 5}, {"a": 1_000_000}, 1000) == {"a": 1}


def test_without_messages_there_are_no_shares() -> None:
    assert (fair_shares({"a": 0}, 5), shares_of_bytes({"a": 0}, {"a": 1}, 5)) == ({}, {})


RANGES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50_000)), max_size=20).map(
    lambda spans: [_range(queue_id, start, start + count) for queue_id, (start, count) in enumerate(spans)]
)


@given(RANGES, st.integers(1, 16), st.none() | st.integers(1, 40), st.none() | st.integers(50, 3000))
def test_partitions_hold_every_message_once_and_respect_limits(
    ranges: list[QueueRange], parallelism: int, partitions_min: int | None, records_max: int | None
) -> None:
    partitions = partitions_of(
        ranges, parallelism=parallelism, partitions_min=partitions_min, records_per_partition_max=records_max
    )

    joined: list[QueueRange] = []
    for part in (part for partition in partitions for part in partition):
        if joined and joined[-1].queue == part.queue:
            assert joined[-1].end == part.start
            joined[-1] = joined[-1]._replace(end=part.end)
        else:
            joined.append(part)
    assert joined == [part for part in ranges if part.length]
    if records_max is None:
        assert len(partitions) <= max(parallelism, partitions_min or 1)
    else:
        assert all(sum(part.length for part in partition) <= records_max for partition in partitions)


def test_few_messages_are_read_by_one_task_unless_more_are_requested() -> None:
    ranges = [_range(queue_id, 0, 10) for queue_id in range(8)]

    assert len(partitions_of(ranges, parallelism=4)) == 1
    assert len(partitions_of(ranges, parallelism=4, partitions_min=8)) == 8


def test_a_large_queue_is_split() -> None:
    partitions = partitions_of([_range(0, 100, 10_100)], parallelism=2)

    assert partitions == [[_range(0, 100, 5100)], [_range(0, 5100, 10_100)]]
