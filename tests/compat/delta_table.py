"""A driver that continues the Delta table of a killed driver, and then repeats its last batch.

    python -m tests.compat.delta_table NAMESERVER TOPIC DIRECTORY

It prints the rows of the table after each step.
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
    arguments = parser.parse_args()
    spark, directory = session(), Path(arguments.directory)

    archive(spark, arguments.name_server, arguments.topic, directory, None, "delta")
    once = _rows(spark, directory)
    # As after a kill between the commit to the table and the commit to the checkpoint.
    _delete_last_commit(directory / "checkpoint" / "commits")
    archive(spark, arguments.name_server, arguments.topic, directory, None, "delta")
    print(json.dumps({"once": once, "again": _rows(spark, directory)}), flush=True)
    spark.stop()


def _rows(spark: SparkSession, directory: Path) -> list[str]:
    return sorted(row.body for row in spark.read.format("delta").load(str(directory / "out")).select("body").collect())


def _delete_last_commit(commits: Path) -> None:
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    # The checksum file of Spark's file system.
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
