"""Declared pipelines, run by Spark from topics to tables and topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerolox.errors import KeroloxError
from kerolox.spark.pipelines.engine.build import run_pipeline
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.engine.spec import pipeline_of
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = {
    "options": {
        "startingOffsets": "earliest",
        "valueFormat": "json",
        "valueSchema": "id INT, customer INT, price DOUBLE",
        "maxOffsetsPerTrigger": 60,
    }
}


def run(spark: SparkSession, folder: Path, cluster: Brokers, **content: Any) -> Run:
    declared = {"checkpoint": "state", "nameServer": cluster.namesrv_addr, **content}
    pipeline = pipeline_of(declared, folder=folder, default_name="test")
    with Run("test", folder=folder / "progress") as running:
        run_pipeline(spark, pipeline, running)
    return running


def send_orders(cluster: Brokers, topic: str, first: int, last: int) -> None:
    bodies = [json.dumps({"id": n, "customer": n % 2, "price": n * 1.0}).encode() for n in range(first, last)]
    cluster.send(topic, *bodies)


def test_a_pipeline_joins_scores_and_writes_each_order_once(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    send_orders(cluster, topic, 0, 100)
    (tmp_path / "customers.csv").write_text("0,Ann\n1,Bob\n")
    (tmp_path / "scores.py").write_text(
        "from pyspark.sql.functions import col\n\n\n"
        "def scored(spark, enriched):\n    return enriched.withColumn('score', col('price') * 2)\n"
    )
    content = {
        "source": {
            "orders": {"topics": [topic], **ORDERS},
            "customers": {
                "format": "csv",
                "path": "customers.csv",
                "stream": False,
                "schema": "customer INT, name STRING",
            },
        },
        "table": {
            "enriched": {
                "sql": "SELECT value.*, name FROM orders JOIN customers ON value.customer = customers.customer"
            },
            "scored": {"python": "scores.py:scored"},
            "bodies": {"sql": "SELECT to_json(struct(id, score)) AS body, name AS tags FROM scored"},
        },
        "sink": {
            "archive": {"from": "scored", "format": "parquet", "path": "out", "partitionBy": ["name"]},
            "scores": {"from": "bodies", "topic": f"{topic}-scores"},
            "names": {"from": "customers", "format": "json", "path": "names", "mode": "overwrite"},
        },
    }
    cluster.create(f"{topic}-scores")

    first = run(spark, tmp_path, cluster, **content)
    send_orders(cluster, topic, 100, 130)
    second = run(spark, tmp_path, cluster, **content)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.name, row.score) for row in rows) == [
        (n, ("Ann", "Bob")[n % 2], n * 2.0) for n in range(130)
    ]
    written = spark.read.format("rocketmq").options(
        nameServer=cluster.namesrv_addr, subscribe=f"{topic}-scores", valueFormat="json", valueSchema="id INT"
    )
    assert sorted(row.value.id for row in written.load().collect()) == list(range(130))
    assert spark.read.json(str(tmp_path / "names")).count() == 2
    assert {flow.name: flow.rows for flow in first.progress.flows} == {"archive": 100, "scores": 100, "names": 2}
    assert {flow.name: (flow.rows, flow.lag) for flow in second.progress.flows} == {
        "archive": (30, 0),
        "scores": (30, 0),
        "names": (2, None),
    }
    assert json.loads((tmp_path / "progress" / "test.json").read_text())["state"] == "done"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": {"a": {"sql": "SELECT missing FROM numbers"}}}, "table a: .*missing.* cannot be resolved"),
        ({"table": {"a": {"sql": "SELEC 1"}}}, "table a: .*PARSE_SYNTAX_ERROR"),
        ({"table": {"a": {"python": "none.py:f"}}}, "table a: .*none.py is not a Python file"),
        ({"table": {"a": {"python": "made.py:g"}}}, "table a: .*made.py has no function g"),
        (
            {"table": {"a": {"python": "made.py:wants"}}},
            "table a: its function has a parameter others, .* spark, numbers",
        ),
        ({"table": {"a": {"python": "made.py:gives"}}}, "table a: its function returned 5: return a DataFrame"),
        (
            {"source": {"numbers": {"format": "rate", "watermark": {"column": "x", "delay": "1 second"}}}},
            "watermark of",
        ),
        (
            {"source": {"numbers": {"topics": ["t"], "options": {"minPartition": 3}}}},
            "source.numbers: option minpartition is unknown: is minPartitions meant",
        ),
        ({"source": {"numbers": {"format": "nothing"}}}, "table numbers: .*nothing"),
        ({"sink": {"s": {"from": "numbers", "format": "noop", "mode": "overwrite"}}}, "give append or complete"),
        ({"sink": {"s": {"from": "numbers", "topic": "t"}}}, "s: .*column timestamp cannot be written"),
    ],
)
def test_errors_of_spark_are_reported_in_one_sentence(
    spark: SparkSession, cluster: Brokers, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "made.py").write_text("def wants(others): return others\ndef gives(): return 5\n")
    content: dict[str, Any] = {
        "source": {"numbers": {"format": "rate"}},
        "sink": {"s": {"from": "numbers", "format": "noop"}},
        **changes,
    }

    with pytest.raises(KeroloxError, match=message) as raised:
        run(spark, tmp_path, cluster, **content)

    assert "\n" not in str(raised.value)
    assert json.loads((tmp_path / "progress" / "test.json").read_text())["state"] == "failed"


def test_the_first_run_reads_existing_messages(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    send_orders(cluster, topic, 0, 5)
    sink = {"from": "orders", "format": "parquet", "path": "out"}

    run(spark, tmp_path, cluster, source={"orders": {"topics": [topic]}}, sink={"all": sink})

    assert spark.read.parquet(str(tmp_path / "out")).count() == 5
