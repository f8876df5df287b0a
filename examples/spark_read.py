"""A topic as a Spark table: sends orders, and aggregates them by tag. Needs the extra `spark`."""

import asyncio
import tempfile
from pathlib import Path

from kerolox.client import Message, Producer
from kerolox.spark import prepare
from kerolox.testing import Cluster


def totals_by_tag(name_server: str) -> list[tuple[str, int, float]]:
    """Returns tag, number of orders and total price."""
    prepare()
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import expr

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    orders = spark.read.format("rocketmq").options(
        nameServer=name_server, subscribe="orders", valueFormat="json", valueSchema="price DOUBLE"
    )
    table = orders.load().groupBy("tags").agg(expr("count(*) AS orders"), expr("sum(value.price) AS price"))
    rows = [(row.tags, row.orders, row.price) for row in table.orderBy("tags").collect()]
    spark.stop()
    return rows


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Cluster(Path(directory)) as cluster:
            async with Producer("shop", namesrv_addr=cluster.namesrv_addr) as producer:
                for number in range(100):
                    tag = "paid" if number % 4 else "open"
                    await producer.send(Message("orders", b'{"price": %d}' % number, tag=tag))
            for tag, count, price in await asyncio.to_thread(totals_by_tag, cluster.namesrv_addr):
                print(f"{count} orders are {tag}, worth {price:.2f}")


asyncio.run(main())
