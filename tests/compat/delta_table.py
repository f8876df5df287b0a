"""A driver that goes on with what a killed one has left of a Delta table, and then repeats its last batch.

    python -m tests.compat.delta_table NAMESERVER TOPIC DIRECTORY

It prints the rows of the table each time.
"""

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.archiving import archive, session


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("name_server", "topic", "directory"):
        parser.add_argument(name)
    given = parser.parse_args()
    spark, directory = session(), Path(given.directory)

    archive(spark, given.name_server, given.topic, directory, None, "delta")
    once = _rows(spark, directory)
    # As if it had been killed when the table had the batch, and the checkpoint did not say so yet.
    _forget_the_last_batch(directory / "checkpoint" / "commits")
    archive(spark, given.name_server, given.topic, directory, None, "delta")
    print(json.dumps({"once": once, "again": _rows(spark, directory)}), flush=True)
    spark.stop()


def _rows(spark: SparkSession, directory: Path) -> list[str]:
    return sorted(row.body for row in spark.read.format("delta").load(str(directory / "out")).select("body").collect())


def _forget_the_last_batch(commits: Path) -> None:
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    # What Spark's file system would check the file by.
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
