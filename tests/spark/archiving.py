"""A driver of its own that writes a topic to Parquet, to be killed: `python -m tests.spark.archiving ...`."""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.conftest import SETTINGS


def archive(spark: SparkSession, name_server: str, topic: str, directory: Path, limit: int) -> None:
    """Writes all that is in a topic now, some at a time; goes on where it was."""
    source = spark.readStream.format("rocketmq").options(
        nameServer=name_server, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=limit
    )
    query = (
        source.load()
        .selectExpr("brokerName", "queueId", "queueOffset", "CAST(body AS STRING) AS body")
        .writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("name_server", "topic", "directory", "limit"):
        parser.add_argument(name)
    given = parser.parse_args()
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    archive(spark, given.name_server, given.topic, Path(given.directory), int(given.limit))
    spark.stop()


if __name__ == "__main__":
    main()
