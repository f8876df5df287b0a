"""RocketMQ's topics as Spark tables: `spark.read.format("rocketmq")`, and `readStream`.

Spark finds the format by itself where this package is installed; where it does not, `register(spark)` tells it.
Importing this package imports no Spark, so that `prepare()` may come first.
"""

from typing import TYPE_CHECKING

from kerolox.spark.java import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["prepare", "register"]


def register(spark: "SparkSession") -> None:
    """Makes the formats known to a session that does not find them by itself."""
    from pyspark.errors import AnalysisException

    from kerolox.spark.source import RocketMQ
    from kerolox.spark.store_source import RocketMQStore

    for source in (RocketMQ, RocketMQStore):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # Spark 4.0 takes no format again that it has found by itself.
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
