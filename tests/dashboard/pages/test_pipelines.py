import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerolox.dashboard.pages import pipelines
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from kerolox.spark.pipelines.engine.progress import FlowProgress, PipelineProgress, ProgressFile
from tests.dashboard.browsing import visiting

NOW = 1_700_000_000_000


def pipeline(**more: Any) -> dict[str, Any]:
    flow = {
        "name": "orders to parquet",
        "batch": 12,
        "rows": 34567,
        "rowsPerSecond": 890.5,
        "lag": 21,
        "batchMillis": 340,
        "updated": NOW,
    }
    return {
        "name": "orders",
        "file": "orders.toml",
        "state": "running",
        "pid": 4711,
        "master": "local[2]",
        "started": NOW - 60_000,
        "updated": NOW,
        "error": None,
        "flows": [flow],
        **more,
    }


async def _seen(folder: Path, tmp_path: Path) -> str:
    options = DashboardOptions(namesrv_addr="127.0.0.1:1", pipelines_folder=folder, clock=ManualClock(NOW))
    async with visiting(options, tmp_path) as visitor:
        return await visitor.see("/pipelines")


async def test_a_pipeline_is_shown_with_the_progress_of_its_flows(tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text(json.dumps(pipeline()))

    seen = await _seen(tmp_path, tmp_path)

    assert "orders running" in seen
    assert "orders to parquet 12 34,567 890.5 21 340 ms" in seen
    assert "No progress" not in seen


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"updated": NOW - 120_000}, "No progress for 2 min 0 s; is process 4711 still running?"),
        ({"state": "failed", "error": "no such column"}, "no such column"),
    ],
)
async def test_stale_and_failed_pipelines_are_marked(tmp_path: Path, more: dict[str, Any], expected: str) -> None:
    (tmp_path / "orders.json").write_text(json.dumps(pipeline(**more)))

    assert expected in await _seen(tmp_path, tmp_path)


async def test_without_pipelines_a_hint_is_shown(tmp_path: Path) -> None:
    assert "No pipeline has run on this machine" in await _seen(tmp_path / "nothing", tmp_path)


def test_an_invalid_file_is_reported_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(json.dumps(pipeline()))
    (tmp_path / "c.json").write_text(" " * 300_000)
    (tmp_path / "d.json").write_text('{"name": 5}')
    (tmp_path / "e.txt").write_text("no pipeline")

    found, problems = pipelines.read(tmp_path)

    assert [it.name for it in found] == ["orders"]
    assert [it.split()[0] for it in problems] == ["a.json", "c.json", "d.json"]


def test_the_progress_file_of_a_pipeline_is_read(tmp_path: Path) -> None:
    """Pipeline and dashboard share only the file format; each side declares its own types."""
    flow = FlowProgress("orders to parquet", 12, 34567, 890.5, None, 340, NOW)
    progress = PipelineProgress("orders", "orders.toml", "running", 4711, "local[2]", NOW - 1, NOW, None, [flow])
    ProgressFile(tmp_path / "orders.json").write(progress, is_urgent=True)

    found, problems = pipelines.read(tmp_path)

    assert problems == []
    assert msgspec.to_builtins(found) == msgspec.to_builtins([progress])


def test_running_pipelines_come_first(tmp_path: Path) -> None:
    for name, state, started in (("old", "done", 1), ("new", "running", 2), ("newest_messages", "stopped", 3)):
        (tmp_path / f"{name}.json").write_text(json.dumps(pipeline(name=name, state=state, started=started)))

    assert [it.name for it in pipelines.read(tmp_path)[0]] == ["new", "newest_messages", "old"]
