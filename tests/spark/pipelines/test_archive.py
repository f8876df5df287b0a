"""Topics are archived as Parquet: each message once, even after interruptions, and small files merged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.errors import KeroloxError
from kerolox.spark.pipelines import archive as module
from kerolox.spark.pipelines.archive import Archived, ArchiveOptions, archive, read_archive
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bodies(spark: SparkSession, path: Path) -> list[bytes]:
    return sorted(bytes(row.body) for row in read_archive(spark, str(path)).select("body").collect())


def test_a_topic_is_archived_once_in_two_runs_and_compacted(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    first = cluster.send(topic, *[b"%03d" % n for n in range(100)], keys=["k", "1"], tag="paid", properties={"a": "b"})
    output = tmp_path / "archive"
    options = ArchiveOptions(
        name_server=cluster.namesrv_addr, output=str(output), topic=(topic,), batch_max=25, compact_count=3
    )

    done = archive(spark, options)
    second = cluster.send(topic, b"later")
    more = archive(spark, options)
    nothing = archive(spark, options)

    assert (done, more) == (Archived(100, 4, 4), Archived(1, 5, 0))
    assert (nothing.rows, nothing.compacted) == (0, 0)
    assert bodies(spark, output) == sorted([*first, *second])
    (day,) = (output / f"topic={topic}").iterdir()
    assert sorted(part.name for part in day.iterdir()) == ["batch=3", "batch=4"]
    row = read_archive(spark, str(output)).where("body = X'303030'").collect()[0]
    assert (row.topic, row["keys"], row.tags, row.properties["a"]) == (topic, "k 1", "paid", "b")
    assert row.storeTimestamp.date() == row.day


def test_an_interrupted_batch_is_archived_once_when_repeated(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails after it was written and before it is committed, the worst time for a crash."""
    sent = cluster.fill(topic, 60)
    output = tmp_path / "archive"
    options = ArchiveOptions(name_server=cluster.namesrv_addr, output=str(output), topic=(topic,), batch_max=25)
    write = module._write

    def interrupted(*args: object) -> None:
        write(*args)  # type: ignore[arg-type]
        if args[-1] == 1:
            raise RuntimeError("interrupted")

    monkeypatch.setattr(module, "_write", interrupted)
    with pytest.raises(KeroloxError, match="interrupted"):
        archive(spark, options)
    monkeypatch.undo()
    cluster.send(topic, b"meanwhile")

    archive(spark, options)

    assert bodies(spark, output) == sorted([*sent, b"meanwhile"])


def test_either_topic_or_pattern_must_be_given(spark: SparkSession) -> None:
    with pytest.raises(KeroloxError, match="topic and pattern are both missing: give one of them"):
        archive(spark, ArchiveOptions(output="nowhere"))
    with pytest.raises(KeroloxError, match="topic and pattern contradict each other"):
        archive(spark, ArchiveOptions(output="nowhere", topic=("a",), pattern="b"))
