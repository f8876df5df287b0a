"""A separate driver that writes a topic to a table, and can be killed: `python -m tests.spark.archiving ...`."""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.conftest import SETTINGS


def archive(
    spark: SparkSession, name_server: str, topic: str, directory: Path, limit: int | None, kind: str = "parquet"
) -> None:
    """Write all available messages of a topic, in limited batches if there is a limit; continues at its checkpoint."""
    source = spark.readStream.format("rocketmq").options(
        nameServer=name_server, subscribe=topic, startingOffsets="earliest"
    )
    if limit is not None:
        source = source.option("maxOffsetsPerTrigger", limit)
    query = (
        source.load()
        .selectExpr("brokerName", "queueId", "queueOffset", "CAST(body AS STRING) AS body")
        .writeStream.format(kind)
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("name_server", "topic", "directory"):
        parser.add_argument(name)
    parser.add_argument("limit", type=int, nargs="?")
    parser.add_argument("--kind", default="parquet")
    arguments = parser.parse_args()
    spark = session()
    archive(spark, arguments.name_server, arguments.topic, Path(arguments.directory), arguments.limit, arguments.kind)
    spark.stop()


if __name__ == "__main__":
    main()
