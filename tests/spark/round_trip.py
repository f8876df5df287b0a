"""A driver that writes a topic, reads it, and copies it to another as a stream: `python -m tests.spark.round_trip`.

It prints, as JSON, what it read, and how many executors took part.
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
    given = parser.parse_args()
    # Both workers have to be there before anything begins.
    settings = {
        **SETTINGS,
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    builder = SparkSession.builder.master(given.master).appName("round trip")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rocketmq = {"nameServer": given.name_server}

    numbers = spark.range(0, int(given.count), 1, 4)
    bodies = numbers.selectExpr("CAST(id AS STRING) AS body", "concat('k', id) AS keys", "'number' AS tags")
    bodies.write.format("rocketmq").options(**rocketmq, topic=given.source).mode("append").save()

    table = spark.read.format("rocketmq").options(**rocketmq, subscribe=given.source, minPartitions=4).load()
    read = _where_read(table)

    stream = spark.readStream.format("rocketmq").options(
        **rocketmq, subscribe=given.source, startingOffsets="earliest", maxOffsetsPerTrigger=int(given.count) // 3
    )
    copying = stream.load().select("body", "keys", "tags").writeStream.format("rocketmq")
    copying = copying.options(**rocketmq, topic=given.target, checkpointLocation=given.checkpoint)
    query = copying.trigger(availableNow=True).start()
    query.awaitTermination()

    print(json.dumps({**read, "batches": len(query.recentProgress)}), flush=True)
    spark.stop()


def _where_read(table: DataFrame) -> dict[str, int]:
    """Returns how many rows there are, how many are different, and in how many executors they were read."""

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # All that run Python in one executor have been forked by the same process.
            executors = pa.array([os.getppid()] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([batch.column("body"), executors], ["body", "executor"])

    found = table.select("body").mapInArrow(marked, "body BINARY, executor BIGINT").collect()
    return {
        "rows": len(found),
        "distinct": len({bytes(row.body) for row in found}),
        "executors": len({row.executor for row in found}),
    }


if __name__ == "__main__":
    main()
