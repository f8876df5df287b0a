"""A driver that tests the features of data source and sink on its release of Spark, and prints the results.

    python -m tests.compat.spark_features NAMESERVER STORE DIRECTORY

DIRECTORY contains the files of a killed driver that archived the topic `orders`.
"""

import argparse
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kerolox.spark.repeats import drop_repeats
from tests.spark.archiving import archive, session

COUNT: Final = 600
OK: Final = "ok"
_NEEDS_4_2: Final = "refused: needs Spark 4.2"
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, slots=True)
class Trial:
    """The environment of the features; each topic is written by at most one of them."""

    spark: SparkSession
    name_server: str
    store: str
    directory: Path

    def read(self, topic: str, **options: Any) -> DataFrame:
        return self.spark.read.format("rocketmq").options(**self._options(topic, options)).load()

    def stream(self, topic: str, **options: Any) -> DataFrame:
        options = {"startingOffsets": "earliest", **options}
        return self.spark.readStream.format("rocketmq").options(**self._options(topic, options)).load()

    def _options(self, topic: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"nameServer": self.name_server, "subscribe": topic, **options}

    def write(self, frame: DataFrame, topic: str) -> None:
        frame.write.format("rocketmq").options(nameServer=self.name_server, topic=topic).mode("append").save()

    def run(self, frame: DataFrame, kind: str, name: str, **options: Any) -> Any:
        """Run a stream until it has processed the available data; return the query."""
        writer = frame.writeStream.format(kind).options(**options)
        writer = writer.option("checkpointLocation", str(self.directory / f"{name}.checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query


def _reads_batches(trial: Trial) -> str:
    rows = trial.read("orders", includeProperties=True).collect()
    assert sorted(int(row.body) for row in rows) == list(range(COUNT))
    assert {row.properties["UNIQ_KEY"] for row in rows} == {row.msgId for row in rows}
    last = trial.read("orders", startingOffsets=json.dumps({"orders": {"broker-a": {"0": 290, "1": -1}}}))
    assert last.count() == COUNT // 2 - 290
    chosen = trial.spark.read.format("rocketmq").schema("queueId int, body binary")
    options = {"nameServer": trial.name_server, "assign": json.dumps({"orders": {"broker-a": [1]}})}
    assert {row.queueId for row in chosen.options(**options).load().collect()} == {1}
    return OK


def _reads_values(trial: Trial) -> str:
    frame = trial.spark.range(10).selectExpr("to_json(struct(id, id * 0.5 AS half)) AS body")
    trial.write(frame, "values")
    values = trial.read("values", valueFormat="json", valueSchema="id BIGINT, half DOUBLE").select("value.*")
    assert sorted((row.id, row.half) for row in values.collect()) == [(number, number / 2) for number in range(10)]
    return OK


def _pushes_filters_down(trial: Trial) -> str:
    trial.spark.conf.set(_PUSHDOWN, "true")
    try:
        frame = trial.read("orders", minPartitions=4).where("queueId = 1 AND queueOffset <= 1")
        assert frame.count() == 2
        # With filter pushdown, only two messages are read, which make two partitions instead of four.
        return OK if frame.rdd.getNumPartitions() == 2 else "read, and filtered by Spark"
    finally:
        trial.spark.conf.unset(_PUSHDOWN)


def _reads_a_store(trial: Trial) -> str:
    frame = trial.spark.read.format("rocketmq-store").options(topics="orders", readUnflushed=True)
    assert sorted(int(row.body) for row in frame.load(trial.store).collect()) == list(range(COUNT))
    return OK


def _writes_batches(trial: Trial) -> str:
    columns = ("CAST(id AS STRING) AS body", "array(concat('k', id)) AS keys", "'t' AS tags")
    extra = ("map('parity', CAST(id % 2 AS STRING)) AS properties", "concat('s', id % 3) AS shardingKey")
    trial.write(trial.spark.range(100).selectExpr(*columns, *extra), "written")
    late = trial.spark.range(3).selectExpr("'late' AS body", "INTERVAL '1' HOUR AS delay")
    trial.write(late, "written")
    rows = trial.read("written", includeProperties=True).collect()
    found = sorted((int(row.body), row["keys"], row.tags, row.properties["parity"]) for row in rows)
    assert found == [(number, f"k{number}", "t", str(number % 2)) for number in range(100)]
    return OK


def _streams(trial: Trial) -> str:
    out = str(trial.directory / "streamed")
    for expected in (COUNT, COUNT + 50):
        trial.run(trial.stream("growing"), "parquet", "streamed", path=out)
        bodies = [bytes(row.body) for row in trial.spark.read.parquet(out).select("body").collect()]
        assert (len(bodies), len(set(bodies))) == (expected, expected)
        trial.write(trial.spark.range(50).selectExpr("concat('more ', id) AS body"), "growing")
    return OK


def _limits_batches(trial: Trial) -> str:
    try:
        query = trial.run(trial.stream("orders", maxOffsetsPerTrigger=200), "noop", "limited")
    except PySparkException as error:
        if "need Spark 4.2 or newer" not in str(error):
            raise
        return _NEEDS_4_2
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [200, 200, 200]
    return OK


def _reports_latest_offsets(trial: Trial) -> str:
    query = trial.run(trial.stream("orders", groupId="spark"), "noop", "told")
    sources = [progress.sources[0] for progress in query.recentProgress]
    assert any(source.latestOffset not in (None, "null") for source in sources)
    return OK


def _writes_streams(trial: Trial) -> str:
    copied = trial.stream("orders").selectExpr("body", "msgId AS keys")
    trial.run(copied, "rocketmq", "copied", nameServer=trial.name_server, topic="copies")
    rows = trial.read("copies").collect()
    assert sorted(int(row.body) for row in rows) == list(range(COUNT))
    assert len({row.msgId for row in rows}) == COUNT
    return OK


def _drops_repeats(trial: Trial) -> str:
    frame = trial.spark.range(50).selectExpr("CAST(id AS STRING) AS body")
    for _ in range(2):
        writer = frame.write.format("rocketmq").options(nameServer=trial.name_server, topic="twice", writeId="same")
        writer.mode("append").save()
    once = drop_repeats(trial.stream("twice").select("msgId", "storeTimestamp", "body"))
    out = str(trial.directory / "once")
    trial.run(once, "parquet", "once", path=out)
    assert (trial.read("twice").count(), trial.spark.read.parquet(out).count()) == (100, 50)
    return OK


def _restarts_after_a_kill(trial: Trial) -> str:
    archive(trial.spark, trial.name_server, "orders", trial.directory, None)
    bodies = [row.body for row in trial.spark.read.parquet(str(trial.directory / "out")).select("body").collect()]
    assert sorted(map(int, bodies)) == list(range(COUNT))
    return OK


FEATURES: Final[dict[str, Callable[[Trial], str]]] = {
    "read a batch: all columns, offsets, queues, a schema": _reads_batches,
    "bodies as JSON": _reads_values,
    "filter pushdown to the source": _pushes_filters_down,
    "read a store without its broker": _reads_a_store,
    "write a batch: keys, tags, properties, order, delay": _writes_batches,
    "stream (AvailableNow), restarted from its checkpoint": _streams,
    "restart after a killed driver: each row once": _restarts_after_a_kill,
    "limit on the rows of a stream's batch": _limits_batches,
    "latest offsets of brokers in the query progress": _reports_latest_offsets,
    "write a stream to a topic": _writes_streams,
    "drop repeats from a stream": _drops_repeats,
}


def run_feature(trial: Trial, feature: Callable[[Trial], str]) -> str:
    try:
        return feature(trial)
    except Exception:
        return f"FAILED: {traceback.format_exc()}"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("name_server", "store", "directory"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    spark = session()
    trial = Trial(spark, arguments.name_server, arguments.store, Path(arguments.directory))
    results = {name: run_feature(trial, feature) for name, feature in FEATURES.items()}
    print(json.dumps({"version": spark.version, "results": results}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
