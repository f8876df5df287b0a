"""Spark's own runner runs specs of declarative pipelines, with topics as tables."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerolox.errors import ConfigurationError
from kerolox.spark.pipelines.engine import spark_declarative
from tests.spark.clusters import Brokers, numbered
from tests.spark.conftest import environment
from tests.spark.write.test_writer import stored

TRANSFORMATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
def orders():
    return spark.readStream.format("rocketmq").options(
        nameServer="{address}", subscribe="{topic}", startingOffsets="earliest"
    ).load().selectExpr("CAST(body AS STRING) AS body")


@dp.materialized_view
def counted():
    return spark.read.table("orders").groupBy().count()


dp.create_sink("copies", "rocketmq", {{"nameServer": "{address}", "topic": "{topic}-copies"}})


@dp.append_flow(target="copies")
def copied():
    return spark.readStream.table("orders")
"""


def run_spec(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerolox.spark.pipelines.submit", "run", str(folder / "spark-pipeline.yml")]
    return subprocess.run(
        [*command, "--master", "local[2]"],
        env={**environment(), "KEROLOX_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_runs_a_spec_with_a_topic_and_continues_in_the_second_run(
    cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    cluster.fill(topic, 100)
    copies = f"{topic}-copies"
    cluster.create(copies)
    folder = tmp_path / "counting"
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "orders.py").write_text(
        TRANSFORMATIONS.format(address=cluster.namesrv_addr, topic=topic)
    )
    (folder / "spark-pipeline.yml").write_text(
        f"name: counting\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )

    first = run_spec(folder)
    cluster.send(topic, *numbered(50, b"more "))
    second = run_spec(folder)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "counting: done" in second.stderr
    warehouse = folder / ".spark-pipeline" / "warehouse"
    assert pq.read_table(warehouse / "counted")["count"].to_pylist() == [150]
    # The second run continues after the first one: nothing is copied twice.
    bodies = [record.body for record in stored(cluster, copies)]
    assert (len(bodies), len(set(bodies))) == (150, 150)
    assert '"state":"done"' in (folder / "home" / "pipelines" / "counting.json").read_text()


def test_a_missing_requirement_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_declarative, "spark_version", lambda: (4, 0))
    with pytest.raises(ConfigurationError, match=r"need Spark 4\.1 or newer"):
        spark_declarative.check_runnable()

    def find_spec(name: str) -> Any:
        return None if name == "yaml" else object()

    monkeypatch.setattr(spark_declarative, "spark_version", lambda: (4, 3))
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(ConfigurationError, match=r"need yaml: pip install '.*\[pipelines\]'"):
        spark_declarative.check_runnable()


def test_the_reason_is_the_last_line_that_looks_like_an_error() -> None:
    assert spark_declarative.reason_of(["a\n", "x.SparkException: [TABLE_NOT_FOUND] no\n", "sdp: ended\n"]) == (
        "x.SparkException: [TABLE_NOT_FOUND] no"
    )
    assert "see its output" in spark_declarative.reason_of(["a\n"])


def test_every_setting_reaches_the_server(tmp_path: Path) -> None:
    """The runner itself passes on only the last --conf."""
    arguments = spark_declarative._submit_arguments(tmp_path / "spark-pipeline.yml", {"spark.a": "b c"})

    assert "'spark.a=b c'" in arguments
    assert "spark.sql.catalogImplementation=hive" in arguments
    assert arguments.endswith("pyspark-shell")
