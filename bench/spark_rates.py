"""Rows per second from each source to `noop` and to Parquet, in batches and as streams; and to topics."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.report import KEROLOX
from bench.spark_arrow import NAME, save
from bench.spark_environment import SparkEnvironment
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
class Source:
    """A source of the same rows: as a table, and as a stream of several batches."""

    name: str
    table: Callable[[], DataFrame]
    stream: Callable[[], DataFrame]


class RowWriter:
    """Generates the rows of all sources, with bodies of 1 KiB that hardly compress, and writes them."""

    def __init__(self, environment: SparkEnvironment, rows: int) -> None:
        self._environment = environment
        self.rows = rows
        self._bodies = str(environment.directory / "bodies")

    def make(self) -> None:
        parts = ", ".join(f"sha2(concat(id, '-{number}'), 256)" for number in range(BODY_SIZE // 64))
        ids = self._environment.spark.range(0, self.rows, 1, 2)
        ids.selectExpr(f"CAST(concat({parts}) AS BINARY) AS body").write.parquet(self._bodies)

    def to_topic(self, topic: str) -> float:
        """Write the rows to a topic on two brokers; return rows per second."""
        self._environment.create(topic)
        bodies = self._environment.spark.read.parquet(self._bodies)
        writing = (
            bodies.write.format("rocketmq").options(nameServer=self._environment.namesrv, topic=topic).mode("append")
        )
        rate = self.rows / _seconds(writing.save)
        _check(f"topic {topic}", self._environment.stored(topic), self.rows)
        return rate

    def to_kafka(self, topic: str) -> float:
        self._environment.create_on_kafka(topic)
        bodies = self._environment.spark.read.parquet(self._bodies).withColumnRenamed("body", "value")
        writing = bodies.write.format("kafka").option("topic", topic)
        writing = writing.option("kafka.bootstrap.servers", str(self._environment.kafka))
        return self.rows / _seconds(writing.save)

    def to_parquet(self, path: Path) -> None:
        """Write the rows of the topic, with all columns, to twice as many files as a stream has batches."""
        table = topic_source(self._environment, self.rows).table().repartition(2 * BATCHES)
        table.write.parquet(str(path))


def sources(environment: SparkEnvironment, rows: int) -> list[Source]:
    """Return our source and the others; the topics of both systems must have been filled."""
    ours = topic_source(environment, rows)
    found = [ours, _arrow_source(environment, ours, rows)]
    if environment.kafka is not None:
        found.append(_kafka_source(environment, rows))
    return [*found, _parquet_source(environment)]


def topic_source(environment: SparkEnvironment, rows: int) -> Source:
    options = {"nameServer": environment.namesrv, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return Source(
        KEROLOX,
        lambda: environment.spark.read.format("rocketmq").options(**options).load(),
        lambda: (
            environment.spark.readStream.format("rocketmq")
            .options(**options, maxOffsetsPerTrigger=rows // BATCHES)
            .load()
        ),
    )


def store_source(environment: SparkEnvironment) -> DataFrame:
    """Return the rows in the store files of both brokers."""
    first, second = (
        environment.spark.read.format("rocketmq-store").option("topics", TOPIC).load(str(store))
        for store in environment.stores
    )
    return first.union(second)


def _arrow_source(environment: SparkEnvironment, ours: Source, rows: int) -> Source:
    """Return a source of prebuilt batches with the columns and size of ours."""
    path = environment.directory / "prebuilt.arrow"
    save(_first_batch(environment), path)
    schema = ours.table().schema
    options: dict[str, str | int] = {"path": str(path), "rows": rows, "rowsPerTrigger": rows // BATCHES}
    return Source(
        ARROW,
        lambda: environment.spark.read.format(NAME).schema(schema).options(**options).load(),
        lambda: environment.spark.readStream.format(NAME).schema(schema).options(**options).load(),
    )


def _first_batch(environment: SparkEnvironment) -> pa.RecordBatch:
    reader = BatchReader(
        read_task(
            read_options({"nameServer": environment.namesrv, "subscribe": TOPIC}, is_stream=False), topic_schema()
        )
    )
    reading = reader.read(reader.partitions()[0])
    return next(reading)


def _kafka_source(environment: SparkEnvironment, rows: int) -> Source:
    options = {"kafka.bootstrap.servers": str(environment.kafka), "subscribe": TOPIC, "startingOffsets": "earliest"}
    return Source(
        KAFKA,
        lambda: environment.spark.read.format("kafka").options(**options).load(),
        lambda: (
            environment.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=rows // BATCHES).load()
        ),
    )


def _parquet_source(environment: SparkEnvironment) -> Source:
    path = str(environment.directory / "rows")
    return Source(
        PARQUET,
        lambda: environment.spark.read.parquet(path),
        lambda: (
            environment.spark.readStream.schema(environment.spark.read.parquet(path).schema)
            .option("maxFilesPerTrigger", 2)
            .parquet(path)
        ),
    )


class ReadComparison:
    """Measures sources in turns, and checks that no row is missing where possible."""

    def __init__(self, environment: SparkEnvironment, rows: int, show_status: Callable[[str], None]) -> None:
        self._environment = environment
        self._rows = rows
        self._show_status = show_status

    def compare(
        self, sources: list[Source], jobs: Sequence[tuple[str, str]], rounds: int, *, is_warm: bool
    ) -> dict[tuple[str, str], Rates]:
        """Return the rates of every source, by (kind, target)."""
        found: dict[tuple[str, str], Rates] = {}
        for kind, target in jobs:
            rates = found[kind, target] = {source.name: [] for source in sources}
            for number in range(0 if is_warm else -1, rounds):
                for source in sources:
                    self._show_status(f"{kind} to {target}: {source.name}")
                    measured = self._rates(source, kind, target)
                    # The first round warms up the JVM.
                    if number >= 0:
                        rates[source.name] += measured
        return found

    def store(self, rounds: int) -> Rates:
        """Return the rates of reading the store files directly, and of pulling the same rows from the brokers."""
        rates: Rates = {KEROLOX: [], BROKER_PATH: [], ARROW: []}
        ours = topic_source(self._environment, self._rows)
        topic, ceiling = ours.table, _arrow_source(self._environment, ours, self._rows).table
        _check("the store", store_source(self._environment).count(), self._rows)
        for _ in range(rounds):
            self._show_status("rocketmq-store, and the same rows from the brokers")
            rates[KEROLOX].append(self._rows / _seconds(lambda: _to_noop(store_source(self._environment))))
            rates[BROKER_PATH].append(self._rows / _seconds(lambda: _to_noop(topic())))
            rates[ARROW].append(self._rows / _seconds(lambda: _to_noop(ceiling())))
        return rates

    def _rates(self, source: Source, kind: str, target: str) -> list[float]:
        """Return the rate of one round; an empty list if Kafka has failed."""
        if source.name == KAFKA:
            return self._environment.with_kafka(lambda: self._rate(source, kind, target))
        return [self._rate(source, kind, target)]

    def _rate(self, source: Source, kind: str, target: str) -> float:
        output = self._environment.directory / "output"
        if kind == "batch":
            elapsed = _seconds(lambda: _batch(source.table(), target, output))
        else:
            elapsed = _seconds(lambda: self._stream(source, target, output))
        if target == "parquet":
            _check(
                f"{kind} to {target}: {source.name}",
                self._environment.spark.read.parquet(str(output)).count(),
                self._rows,
            )
            shutil.rmtree(output)
        return self._rows / elapsed

    def _stream(self, source: Source, target: str, output: Path) -> None:
        checkpoint = self._environment.directory / "checkpoint"
        writing: DataStreamWriter = source.stream().writeStream.format(target)
        if target == "parquet":
            writing = writing.option("path", str(output))
        query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.recentProgress
        shutil.rmtree(checkpoint)
        _check(f"stream to {target}: {source.name}", sum(each.numInputRows for each in progress), self._rows)


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
