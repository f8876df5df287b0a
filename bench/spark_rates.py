"""Rows per second from each source to nowhere and to Parquet, in batches and as streams; and into topics."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.report import KEROLOX
from bench.spark_arrow import NAME, save
from bench.spark_stage import Stage
from kerolox.spark.options import read_options
from kerolox.spark.read.task import read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.source import BatchReader

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ARROW, KAFKA, PARQUET = "prebuilt Arrow", "Kafka", "Parquet"
BROKER_PATH = "broker path"
TOPIC = "bench"
BODY_SIZE = 1024
# Batches per stream.
BATCHES = 4
JOBS = (("batch", "noop"), ("batch", "parquet"), ("stream", "noop"), ("stream", "parquet"))
QUICK_JOBS = (("batch", "noop"), ("stream", "parquet"))

Rates = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Side:
    """A source of the same rows: as a table, and as a stream in batches."""

    name: str
    table: Callable[[], DataFrame]
    stream: Callable[[], DataFrame]


class Fill:
    """The rows of all sources: bodies of 1 KiB that hardly compress."""

    def __init__(self, stage: Stage, rows: int) -> None:
        self._stage = stage
        self.rows = rows
        self._bodies = str(stage.directory / "bodies")

    def make(self) -> None:
        parts = ", ".join(f"sha2(concat(id, '-{number}'), 256)" for number in range(BODY_SIZE // 64))
        ids = self._stage.spark.range(0, self.rows, 1, 2)
        ids.selectExpr(f"CAST(concat({parts}) AS BINARY) AS body").write.parquet(self._bodies)

    def to_topic(self, topic: str) -> float:
        """Returns how many rows per second went to two brokers."""
        self._stage.create(topic)
        bodies = self._stage.spark.read.parquet(self._bodies)
        writing = bodies.write.format("rocketmq").options(nameServer=self._stage.namesrv, topic=topic).mode("append")
        rate = self.rows / _seconds(writing.save)
        _check(f"topic {topic}", self._stage.stored(topic), self.rows)
        return rate

    def to_kafka(self, topic: str) -> float:
        self._stage.create_on_kafka(topic)
        bodies = self._stage.spark.read.parquet(self._bodies).withColumnRenamed("body", "value")
        writing = bodies.write.format("kafka").option("topic", topic)
        writing = writing.option("kafka.bootstrap.servers", str(self._stage.kafka))
        return self.rows / _seconds(writing.save)

    def to_parquet(self, path: Path) -> None:
        """Writes the rows as the topic has them, in twice as many files as a stream has batches."""
        table = topic_side(self._stage, self.rows).table().repartition(2 * BATCHES)
        table.write.parquet(str(path))


def sides(stage: Stage, rows: int) -> list[Side]:
    """Returns our source and those for comparison; the topic, and Kafka's, must have been filled."""
    ours = topic_side(stage, rows)
    found = [ours, _arrow_side(stage, ours, rows)]
    if stage.kafka is not None:
        found.append(_kafka_side(stage, rows))
    return [*found, _parquet_side(stage)]


def topic_side(stage: Stage, rows: int) -> Side:
    options = {"nameServer": stage.namesrv, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return Side(
        KEROLOX,
        lambda: stage.spark.read.format("rocketmq").options(**options).load(),
        lambda: (
            stage.spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger=rows // BATCHES).load()
        ),
    )


def store_side(stage: Stage) -> DataFrame:
    """Returns the rows as the files of both brokers have them."""
    first, second = (
        stage.spark.read.format("rocketmq-store").option("topics", TOPIC).load(str(store)) for store in stage.stores
    )
    return first.union(second)


def _arrow_side(stage: Stage, ours: Side, rows: int) -> Side:
    """A batch with the columns and size of ours."""
    path = stage.directory / "prebuilt.arrow"
    save(_first_batch(stage), path)
    schema = ours.table().schema
    options: dict[str, str | int] = {"path": str(path), "rows": rows, "rowsPerTrigger": rows // BATCHES}
    return Side(
        ARROW,
        lambda: stage.spark.read.format(NAME).schema(schema).options(**options).load(),
        lambda: stage.spark.readStream.format(NAME).schema(schema).options(**options).load(),
    )


def _first_batch(stage: Stage) -> pa.RecordBatch:
    reader = BatchReader(
        read_task(read_options({"nameServer": stage.namesrv, "subscribe": TOPIC}, is_stream=False), topic_schema())
    )
    reading = reader.read(reader.partitions()[0])
    return next(reading)


def _kafka_side(stage: Stage, rows: int) -> Side:
    options = {"kafka.bootstrap.servers": str(stage.kafka), "subscribe": TOPIC, "startingOffsets": "earliest"}
    return Side(
        KAFKA,
        lambda: stage.spark.read.format("kafka").options(**options).load(),
        lambda: stage.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=rows // BATCHES).load(),
    )


def _parquet_side(stage: Stage) -> Side:
    path = str(stage.directory / "rows")
    return Side(
        PARQUET,
        lambda: stage.spark.read.parquet(path),
        lambda: (
            stage.spark.readStream.schema(stage.spark.read.parquet(path).schema)
            .option("maxFilesPerTrigger", 2)
            .parquet(path)
        ),
    )


class Reads:
    """Measures sources in turns, and checks that no row is missing where possible."""

    def __init__(self, stage: Stage, rows: int, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._rows = rows
        self._say = say

    def compare(
        self, contestants: list[Side], jobs: Sequence[tuple[str, str]], rounds: int, *, is_warm: bool
    ) -> dict[tuple[str, str], Rates]:
        """Returns for each kind and target the rates of every side."""
        found: dict[tuple[str, str], Rates] = {}
        for kind, target in jobs:
            rates = found[kind, target] = {side.name: [] for side in contestants}
            for number in range(0 if is_warm else -1, rounds):
                for side in contestants:
                    self._say(f"{kind} to {target}: {side.name}")
                    measured = self._rates(side, kind, target)
                    # The first round warms up the JVM.
                    if number >= 0:
                        rates[side.name] += measured
        return found

    def store(self, rounds: int) -> Rates:
        """Returns the rates of the brokers' files, read without them, and of what the brokers give."""
        rates: Rates = {KEROLOX: [], BROKER_PATH: [], ARROW: []}
        ours = topic_side(self._stage, self._rows)
        topic, ceiling = ours.table, _arrow_side(self._stage, ours, self._rows).table
        _check("the store", store_side(self._stage).count(), self._rows)
        for _ in range(rounds):
            self._say("rocketmq-store, beside what the brokers give")
            rates[KEROLOX].append(self._rows / _seconds(lambda: _to_noop(store_side(self._stage))))
            rates[BROKER_PATH].append(self._rows / _seconds(lambda: _to_noop(topic())))
            rates[ARROW].append(self._rows / _seconds(lambda: _to_noop(ceiling())))
        return rates

    def _rates(self, side: Side, kind: str, target: str) -> list[float]:
        """Returns the rate of one round; None if Kafka has failed."""
        if side.name == KAFKA:
            return self._stage.with_kafka(lambda: self._rate(side, kind, target))
        return [self._rate(side, kind, target)]

    def _rate(self, side: Side, kind: str, target: str) -> float:
        output = self._stage.directory / "output"
        if kind == "batch":
            taken = _seconds(lambda: _batch(side.table(), target, output))
        else:
            taken = _seconds(lambda: self._stream(side, target, output))
        if target == "parquet":
            _check(f"{kind} to {target}: {side.name}", self._stage.spark.read.parquet(str(output)).count(), self._rows)
            shutil.rmtree(output)
        return self._rows / taken

    def _stream(self, side: Side, target: str, output: Path) -> None:
        checkpoint = self._stage.directory / "checkpoint"
        writing: DataStreamWriter = side.stream().writeStream.format(target)
        if target == "parquet":
            writing = writing.option("path", str(output))
        query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.recentProgress
        shutil.rmtree(checkpoint)
        _check(f"stream to {target}: {side.name}", sum(each.numInputRows for each in progress), self._rows)


def _batch(table: DataFrame, target: str, output: Path) -> None:
    if target == "parquet":
        table.write.parquet(str(output))
    else:
        _to_noop(table)


def _to_noop(table: DataFrame) -> None:
    table.write.format("noop").mode("overwrite").save()


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _check(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{what} has {found:,} rows instead of {wanted:,}")
