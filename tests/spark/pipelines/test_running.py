"""Runs end by themselves, by a failure, or when told to."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.spark.pipelines.progress import PipelineProgress
from kerolox.spark.pipelines.running import PipelineFailed, Run, Stopped, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def _endless(spark: SparkSession, folder: Path, expression: str = "value") -> StreamingQuery:
    frame = spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr(expression)
    return frame.writeStream.format("noop").option("checkpointLocation", str(folder / "state")).start()


def test_a_run_that_is_told_to_stop_ends_after_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    shown: list[tuple[str, int]] = []

    def show(progress: PipelineProgress) -> None:
        shown.append((progress.state, progress.flows[0].batch if progress.flows else -1))
        if shown[-1][1] >= 1:
            run.stop.set()

    run = Run("endless", show=show)
    query = _endless(spark, tmp_path)
    with run:
        run.streams({"numbers": query})

    assert not query.isActive
    assert query.exception() is None
    assert (shown[0], shown[-1][0], run.was_stopped) == (("starting", -1), "stopped", True)


def test_a_query_that_fails_fails_the_run_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    run = Run("failing")
    query = _endless(spark, tmp_path, "raise_error('no such price') AS value")

    with pytest.raises(PipelineFailed, match=r"numbers: .*no such price"), run:
        run.streams({"numbers": query})

    assert run.progress.state == "failed"
    assert "no such price" in (run.progress.error or "")


def test_work_is_given_up_when_told_to_stop(spark: SparkSession) -> None:
    run = Run("work")
    begun = threading.Event()

    def show(progress: PipelineProgress) -> None:
        if begun.is_set():
            run.stop.set()

    run._show = show

    def work() -> int:
        begun.set()
        return spark.range(10**12).selectExpr("sum(id * id % 7)").collect()[0][0]  # type: ignore[no-any-return]

    with run:
        run.work(spark, work)

    assert run.was_stopped


def test_work_gives_what_it_gives_or_fails_with(spark: SparkSession) -> None:
    with Run("work") as run:
        assert run.work(spark, lambda: spark.range(7).count()) == 7
        with pytest.raises(PipelineFailed, match="oh no"):
            run.work(spark, lambda: spark.sql("SELECT raise_error('oh no')").collect())
        with pytest.raises(ZeroDivisionError):
            run.work(spark, lambda: 1 // 0)

    assert run.progress.state == "done"


def test_a_run_says_that_it_is_alive_while_nothing_happens(tmp_path: Path) -> None:
    """The dashboard takes who is silent for dead."""
    file = tmp_path / "idle.json"
    with Run("idle", folder=tmp_path):
        first = json.loads(file.read_text())["updated"]
        deadline = time.monotonic() + 60
        while json.loads(file.read_text())["updated"] == first:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    assert json.loads(file.read_text())["state"] == "done"


def test_signals_stop_a_run_and_the_second_one_at_once() -> None:
    run = Run("signals")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        run.take_signals()
        signal.raise_signal(signal.SIGTERM)
        assert (run.stop.is_set(), run.hurry.is_set()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert run.hurry.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with pytest.raises(Stopped):
        run.check()


def test_a_sentence_is_the_last_of_a_workers_traceback() -> None:
    told = (
        "[X] Job aborted\nTraceback (most recent call last):\n  File x\na.b.OptionError: no topic: give one\n SQLSTATE"
    )

    assert sentence(ValueError(told)) == "a.b.OptionError: no topic: give one"
    assert sentence(ValueError("one\ntwo")) == "one"
    assert sentence(ValueError()) == "ValueError"
