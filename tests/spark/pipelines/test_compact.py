"""Small files are merged, and the next run finishes a compaction that was interrupted at any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerolox.spark.pipelines.compact import Compactor
from kerolox.spark.pipelines.engine import paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("delete", "rename", "write")


class Crash(Exception):
    """The simulated end of the process."""


class CrashingPaths:
    """Paths that raise Crash after a number of changes."""

    def __init__(self, real: Any, changes: int) -> None:
        self._real = real
        self._left = changes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._real, name)
        if name not in STEPS:
            return method

        def changed(*args: Any) -> Any:
            if self._left == 0:
                raise Crash
            self._left -= 1
            return method(*args)

        return changed


def fill(spark: SparkSession, root: Path) -> None:
    frame = spark.range(30).selectExpr("id", "'a b[1]%' AS topic", "'2026-01-31' AS day", "id % 3 AS batch").coalesce(1)
    frame.write.partitionBy("topic", "day", "batch").parquet(str(root))


def ids(spark: SparkSession, root: Path) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(root)).collect())


def test_a_compaction_interrupted_at_any_step_loses_and_duplicates_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for changes in range(20):
        root = tmp_path / str(changes)
        fill(spark, root)
        compactor = Compactor(spark, str(root), 2, 1 << 20)
        compactor.paths = CrashingPaths(compactor.paths, changes)  # type: ignore[assignment]
        try:
            compactor.compact()
            break
        except Crash:
            Compactor(spark, str(root), 2, 1 << 20).recover()

        assert ids(spark, root) == list(range(30))
        assert not (root / "_compacting").exists()
    else:
        pytest.fail("a compaction should take fewer steps")

    assert changes > 4
    assert ids(spark, root) == list(range(30))
    (day,) = (root / "topic=a b%5B1%5D%25").iterdir()
    assert [part.name for part in day.iterdir()] == ["batch=2"]


def test_large_uncommitted_and_single_batches_are_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    fill(spark, tmp_path / "a")

    for compactor, before in (
        (Compactor(spark, str(tmp_path / "a"), 2, 1), None),
        (Compactor(spark, str(tmp_path / "a"), 4, 1 << 20), None),
        (Compactor(spark, str(tmp_path / "a"), 2, 1 << 20), 1),
        (Compactor(spark, str(tmp_path / "a"), 0, 1 << 20), None),
    ):
        compactor.compact(before)
        assert compactor.count == 0


def test_nothing_is_compacted_without_atomic_renames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(spark, tmp_path / "a")
    compactor = Compactor(spark, str(tmp_path / "a"), 2, 1 << 20)
    assert compactor.paths.renames_atomically
    monkeypatch.setattr(paths, "_ATOMIC_RENAME_SCHEMES", ("hdfs",))

    compactor.compact()

    assert compactor.count == 0
    assert "is not compacted" in caplog.text


def test_staging_folders_of_spark_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a" / ".spark-staging-17" / "topic=x").mkdir(parents=True)

    Compactor(spark, str(tmp_path / "a"), 2, 1).recover()

    assert list((tmp_path / "a").iterdir()) == []
