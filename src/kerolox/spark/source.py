"""`format("rocketmq")`: topics as tables."""

from pyspark.sql.datasource import DataSource


class RocketMQ(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq"
