"""A driver that writes a topic, reads it, and copies it to another as a stream: `python -m tests.spark.round_trip`.

It prints, as JSON, the number of rows and of executors.
"""

import argparse
import json
import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import SETTINGS


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("master", "name_server", "source", "target", "count", "checkpoint"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    # Both workers must be registered before the first job.
    settings = {
        **SETTINGS,
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    builder = SparkSession.builder.master(arguments.master).appName("round trip")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rocketmq = {"nameServer": arguments.name_server}

    numbers = spark.range(0, int(arguments.count), 1, 4)
    bodies = numbers.selectExpr("CAST(id AS STRING) AS body", "concat('k', id) AS keys", "'number' AS tags")
    bodies.write.format("rocketmq").options(**rocketmq, topic=arguments.source).mode("append").save()

    table = spark.read.format("rocketmq").options(**rocketmq, subscribe=arguments.source, minPartitions=4).load()
    read = _read_counts(table)

    stream = spark.readStream.format("rocketmq").options(
        **rocketmq,
        subscribe=arguments.source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=int(arguments.count) // 3,
    )
    writer = stream.load().select("body", "keys", "tags").writeStream.format("rocketmq")
    writer = writer.options(**rocketmq, topic=arguments.target, checkpointLocation=arguments.checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    print(json.dumps({**read, "batches": len(query.recentProgress)}), flush=True)
    spark.stop()


def _read_counts(table: DataFrame) -> dict[str, int]:
    """Return the number of rows, of distinct rows, and of executors that read them."""

    def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # All Python workers of an executor are forked by the same process.
            executors = pa.array([os.getppid()] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([batch.column("body"), executors], ["body", "executor"])

    found = table.select("body").mapInArrow(with_executor, "body BINARY, executor BIGINT").collect()
    return {
        "rows": len(found),
        "distinct": len({bytes(row.body) for row in found}),
        "executors": len({row.executor for row in found}),
    }


if __name__ == "__main__":
    main()
