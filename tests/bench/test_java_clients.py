"""Java's benchmark programs: options, and the figures that they print."""

from __future__ import annotations

from bench.broker import JAVA_RUNS, QUICK_JAVA_RUNS
from bench.java_clients import JavaRun, Mode, failures, rates

LINE = (
    "Current Time: 2024-05-01 10:00:00,000 | Send TPS: {} | Max RT(ms): 9 | Average RT(ms):   1.25 | "
    "Send Failed: {} | Response Failed: {}\n"
)
BATCH_LINE = (
    "Current Time: 2024-05-01 10:00:00,000 | Send TPS: {} | Send MPS: {} | Max RT(ms): 9 | Average RT(ms):   1.25 | "
    "Send Failed: 0 | Send Message Failed: 0\n"
)


def output(*lines: tuple[int, int, int]) -> str:
    return "topic: orders threadCount: 8\n" + "".join(LINE.format(*line) for line in lines)


def test_a_producer_prints_one_rate_per_line() -> None:
    assert rates(output((100, 0, 0), (110, 0, 0))) == [100.0, 110.0]
    assert rates("") == []


def test_the_rate_of_batches_counts_messages() -> None:
    assert rates(BATCH_LINE.format(10, 320)) == [320.0]


def test_the_rates_of_several_producers_are_added_once_all_of_them_have_printed_one() -> None:
    printed = output((1, 0, 0), (2, 0, 0), (3, 0, 0), (10, 0, 0), (20, 0, 0))

    assert rates(printed, 3) == [6.0]
    assert rates(printed + LINE.format(30, 0, 0), 3) == [6.0, 60.0]


def test_failures_are_those_of_the_last_line_of_each_producer() -> None:
    printed = output((1, 5, 0), (2, 0, 0), (1, 6, 1), (2, 0, 3))

    assert failures(printed) == 3
    assert failures(printed, 2) == 10
    assert failures(printed + "WARNING: something else\n", 2) == 10
    assert failures("") == 0


def test_a_run_is_named_by_its_options() -> None:
    assert str(JavaRun(128)) == "sync, 128 B"
    assert str(JavaRun(1024, Mode.BATCHES)) == "batches of 32, 1024 B"
    assert str(JavaRun(128, has_consumer=True)) == "sync, 128 B, with the Consumer"
    assert str(JavaRun(128, has_keys=True, topics=8)) == "sync, 128 B, with keys, over 8 topics"


def test_every_topic_of_a_run_has_another_name() -> None:
    assert JavaRun(128, topics=2).topic_names("bench-java-7-0") == ["bench-java-7-0-0", "bench-java-7-0-1"]


def test_a_quick_run_has_one_of_each_kind() -> None:
    kinds = {run._replace(body_size=0) for run in JAVA_RUNS}

    assert {run._replace(body_size=0) for run in QUICK_JAVA_RUNS} == kinds
    assert len(QUICK_JAVA_RUNS) == len(kinds) == 5
