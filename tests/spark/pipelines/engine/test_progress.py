"""The progress file of a pipeline."""

import json
from pathlib import Path
from types import SimpleNamespace

from kerolox.spark.pipelines.engine.progress import FlowProgress, PipelineProgress, ProgressFile, lag_of


def _progress() -> PipelineProgress:
    flow = FlowProgress("archive", batch=3, rows=40, rows_per_second=8.5, lag=2, batch_millis=120, updated=5)
    return PipelineProgress("orders", None, "running", 77, "local[2]", 1, 2, flows=[flow])


def test_the_file_has_the_field_names_that_the_dashboard_reads(tmp_path: Path) -> None:
    path = tmp_path / "pipelines" / "orders.json"

    ProgressFile(path).write(_progress())

    found = json.loads(path.read_text())
    assert found.pop("updated") > 1_700_000_000_000
    assert found == {
        "name": "orders",
        "file": None,
        "state": "running",
        "pid": 77,
        "master": "local[2]",
        "started": 1,
        "error": None,
        "flows": [
            {
                "name": "archive",
                "batch": 3,
                "rows": 40,
                "rowsPerSecond": 8.5,
                "lag": 2,
                "batchMillis": 120,
                "updated": 5,
            }
        ],
    }
    assert [part.name for part in path.parent.iterdir()] == ["orders.json"]


def test_bad_rows_are_in_the_file_only_if_they_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    progress = _progress()
    progress.flows[0].bad = 3

    ProgressFile(path).write(progress)

    assert json.loads(path.read_text())["flows"][0]["bad"] == 3


def test_the_file_is_written_once_a_second_unless_urgent(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    file = ProgressFile(path)
    progress = _progress()
    file.write(progress)
    file._written = float("inf")
    progress.state = "done"

    file.write(progress)
    assert json.loads(path.read_text())["state"] == "running"

    file.write(progress, is_urgent=True)
    assert json.loads(path.read_text())["state"] == "done"


def test_lag_is_the_number_of_messages_after_the_end_of_a_batch() -> None:
    topic = SimpleNamespace(
        endOffset='{"@begin": {}, "orders": {"broker-a": {"0": 5, "1": 7}}}',
        latestOffset='{"orders": {"broker-a": {"0": 9, "1": 7, "2": 3}}}',
    )
    files = SimpleNamespace(endOffset='{"logOffset": 0}', latestOffset=None)

    assert lag_of([topic, files]) == 4
    assert lag_of([files]) is None
