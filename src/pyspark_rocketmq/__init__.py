"""Lets Spark discover `format("rocketmq")`: it imports packages named `pyspark_*` and registers their DefaultSource."""

from kerolox.spark.source import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]
