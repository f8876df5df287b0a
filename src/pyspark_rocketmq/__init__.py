"""Where Spark looks for `format("rocketmq")`: it imports what is named `pyspark_*` and takes its DefaultSource."""

from kerolox.spark.source import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]
