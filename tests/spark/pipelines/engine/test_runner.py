"""Runs end by themselves, by a failure, or by a stop request."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.spark.pipelines.engine.progress import PipelineProgress
from kerolox.spark.pipelines.engine.runner import PipelineFailed, Run, Stopped, error_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def _endless(spark: SparkSession, folder: Path, expression: str = "value") -> StreamingQuery:
    frame = spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr(expression)
    return frame.writeStream.format("noop").option("checkpointLocation", str(folder / "state")).start()


def test_a_stopped_run_ends_after_the_running_batch(spark: SparkSession, tmp_path: Path) -> None:
    shown: list[tuple[str, int]] = []

    def show(progress: PipelineProgress) -> None:
        shown.append((progress.state, progress.flows[0].batch if progress.flows else -1))
        if shown[-1][1] >= 1:
            run.stop.set()

    run = Run("endless", show=show)
    query = _endless(spark, tmp_path)
    with run:
        run.follow_streams({"numbers": query})

    assert not query.isActive
    assert query.exception() is None
    assert (shown[0], shown[-1][0], run.progress.state) == (("starting", -1), "stopped", "stopped")


def test_a_query_that_fails_fails_the_run_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    run = Run("failing")
    query = _endless(spark, tmp_path, "raise_error('no such price') AS value")

    with pytest.raises(PipelineFailed, match=r"numbers: .*no such price"), run:
        run.follow_streams({"numbers": query})

    assert run.progress.state == "failed"
    assert "no such price" in (run.progress.error or "")


def test_a_stop_request_cancels_a_job(spark: SparkSession) -> None:
    run = Run("work")
    started = threading.Event()

    def show(progress: PipelineProgress) -> None:
        if started.is_set():
            run.stop.set()

    run._show = show

    def work() -> int:
        started.set()
        return spark.range(10**12).selectExpr("sum(id * id % 7)").collect()[0][0]  # type: ignore[no-any-return]

    with run:
        run.run_job(spark, work)

    assert run.progress.state == "stopped"


def test_a_job_returns_its_result_or_raises_its_error(spark: SparkSession) -> None:
    with Run("work") as run:
        assert run.run_job(spark, lambda: spark.range(7).count()) == 7
        with pytest.raises(PipelineFailed, match="oh no"):
            run.run_job(spark, lambda: spark.sql("SELECT raise_error('oh no')").collect())
        with pytest.raises(ZeroDivisionError):
            run.run_job(spark, lambda: 1 // 0)

    assert run.progress.state == "done"


def test_a_run_updates_its_progress_file_while_nothing_happens(tmp_path: Path) -> None:
    """The dashboard treats an old progress file as a dead run."""
    file = tmp_path / "idle.json"
    with Run("idle", folder=tmp_path):
        first = json.loads(file.read_text())["updated"]
        deadline = time.monotonic() + 60
        while json.loads(file.read_text())["updated"] == first:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    assert json.loads(file.read_text())["state"] == "done"


def test_a_signal_stops_a_run_and_a_second_one_stops_it_at_once() -> None:
    run = Run("signals")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        run.install_signal_handlers()
        signal.raise_signal(signal.SIGTERM)
        assert (run.stop.is_set(), run.stop_now.is_set()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert run.stop_now.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with pytest.raises(Stopped):
        run.raise_if_stopped()


def test_the_error_sentence_is_the_last_line_of_a_worker_traceback() -> None:
    message = (
        "[X] Job aborted\nTraceback (most recent call last):\n  File x\na.b.OptionError: no topic: give one\n SQLSTATE"
    )

    assert error_sentence(ValueError(message)) == "a.b.OptionError: no topic: give one"
    assert error_sentence(ValueError("one\ntwo")) == "one"
    assert error_sentence(ValueError()) == "ValueError"
