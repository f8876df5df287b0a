"""Lets Spark discover `format("rocketmq-store")`; a `pyspark_*` package can have only one DefaultSource."""

from kerolox.spark.store.source import RocketMQStore as DefaultSource

__all__ = ["DefaultSource"]
