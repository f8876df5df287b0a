"""RocketMQ topics as Spark tables: `spark.read.format("rocketmq")`, and `readStream`.

Spark discovers the format where this package is installed; elsewhere call `register(spark)`.
Importing this package does not import Spark, so that `prepare()` can be called first.
"""

from typing import TYPE_CHECKING

from kerolox.spark.jvm import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["prepare", "register"]


def register(spark: "SparkSession") -> None:
    """Register the formats with a session that has not discovered them."""
    from pyspark.errors import AnalysisException

    from kerolox.spark.source import RocketMQ
    from kerolox.spark.store.source import RocketMQStore

    for source in (RocketMQ, RocketMQStore):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # Spark 4.0 refuses to register a format that it has discovered.
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
