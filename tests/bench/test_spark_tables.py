"""Goals in the tables of the Spark benchmark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="kerolox[spark] is not installed")

from bench.report import KEROLOX
from bench.spark_backlog import Backlog
from bench.spark_rates import ARROW, KAFKA, PARQUET
from bench.spark_tables import backlog, reads, writes


@pytest.mark.parametrize(
    ("ours", "kafka", "verdict"),
    [
        (120_000.0, [90_000.0], "met"),
        (60_000.0, [30_000.0], "met"),
        (60_000.0, [31_000.0], "MISSED"),
        (60_000.0, [], "MISSED"),
        (100_000.0, [], "met"),
    ],
)
def test_writing_meets_its_goal_by_rate_or_compared_with_kafka(ours: float, kafka: list[float], verdict: str) -> None:
    section = writes({KEROLOX: [ours], KAFKA: kafka})

    assert [line[-1] for line in section.lines()] == [verdict]


def test_reading_is_compared_with_the_api_and_with_kafka() -> None:
    rates = {KEROLOX: [80.0], ARROW: [100.0], PARQUET: [500.0], KAFKA: [90.0]}

    ceiling, kafka = reads({("batch", "noop"): rates})

    assert [line[-3:] for line in ceiling.lines()] == [["0.80x", "≥ 0.7x Arrow", "met"]]
    assert [line[-3:] for line in kafka.lines()] == [["0.89x", "≥ 1x Kafka", "MISSED"]]


def test_without_kafka_its_comparison_is_not_measured() -> None:
    _, kafka = reads({("stream", "parquet"): {KEROLOX: [80.0], ARROW: [100.0], PARQUET: [500.0]}})

    assert [line[-1] for line in kafka.lines()] == ["not measured"]


def test_a_worker_that_grows_beyond_a_gibibyte_is_a_goal_missed() -> None:
    found = Backlog(1000, 2.0, {1: [4.0], 2: [2.5]}, write_memory=2**30 + 1, read_memory=2**29)

    verdicts = {line[0]: line[-1] for line in backlog(found).lines()}

    assert verdicts["largest worker while it is read"] == "met"
    assert verdicts["largest worker while it is written"] == "MISSED"
    assert verdicts["seconds to read it with two tasks"] == "met"
