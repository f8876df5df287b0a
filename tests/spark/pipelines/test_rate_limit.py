"""Rows are limited to a rate, measured by a manual clock."""

import pyarrow as pa

from kerolox.spark.pipelines.rate_limit import RateLimit


def test_the_rate_is_not_exceeded_in_any_interval() -> None:
    clock = [0.0]
    pace = RateLimit(100, now=lambda: clock[0], sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    batches = [pa.record_batch({"n": list(range(count))}) for count in (25, 0, 70, 5)]

    seen = [(round(clock[0], 6), part.num_rows) for part in pace(iter(batches))]

    assert sum(count for _, count in seen) == 100
    so_far = 0
    for at, count in seen:
        assert so_far <= at * 100 + 1e-6
        so_far += count
    assert max(count for _, count in seen) <= 10
    assert 0.9 <= clock[0] <= 1.0


def test_a_rate_below_one_waits_for_each_row() -> None:
    clock = [0.0]
    pace = RateLimit(0.5, now=lambda: clock[0], sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds))

    assert [part.num_rows for part in pace(iter([pa.record_batch({"n": [1, 2, 3]})]))] == [1, 1, 1]
    assert clock[0] == 4.0
