"""Where Spark looks for `format("rocketmq-store")`: it takes one DefaultSource of each package `pyspark_*`."""

from kerolox.spark.store_source import RocketMQStore as DefaultSource

__all__ = ["DefaultSource"]
