"""Runs the Spark example of the README."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerolox.message.properties import parse
from kerolox.spark import register
from tests.spark.clusters import Brokers
from tests.spark.write.test_writer import stored
from tests.test_readme import BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_readme_example_reads_a_topic_and_writes_another(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with Brokers(tmp_path) as cluster:
        cluster.create("orders")
        cluster.create("new-orders")
        cluster.send("orders", b"two teapots", tag="new", keys=["order-17"])
        cluster.send("orders", b"a cup", tag="old")

        exec(BLOCKS[1].replace("127.0.0.1:9876", cluster.namesrv_addr), {"spark": spark})

        (copy,) = stored(cluster, "new-orders")
    assert (parse(copy.properties)["KEYS"], copy.body) == ("order-17", b"two teapots")
