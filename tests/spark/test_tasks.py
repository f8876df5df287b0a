"""What a task does with its partition, without a Spark around it."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from kerolox.errors import ConfigurationError
from kerolox.spark.offsets import QueueRange
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.schema import columns
from kerolox.spark.tasks import Ranges, only_of, reading_of
from tests.spark.clusters import Brokers, numbered


def _options(name_server: str = "a:1", **options: str) -> ReadOptions:
    return read_options({"nameServer": name_server, "subscribe": "orders", **options}, is_stream=False)


def test_several_ranges_become_one_batch_and_each_row_knows_its_broker(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        for broker in ("broker-a", "broker-b"):
            cluster.send("orders", *numbered(10, broker.encode()), broker=broker)
        addresses = {name: broker.address for name, broker in cluster.brokers.items()} | {"broker-c": "c:1"}
        ranges = [QueueRange("orders", "broker-a", 0, 3, 5), QueueRange("orders", "broker-b", 0, 8, 10)]
        partition = pickle.loads(pickle.dumps(Ranges(ranges, addresses)))

        (batch,) = pickle.loads(pickle.dumps(reading_of(_options(cluster.namesrv_addr), columns()))).batches(partition)

    assert set(partition.addresses) == {"broker-a", "broker-b"}
    assert batch.select(["brokerName", "queueOffset", "body"]).to_pylist() == [
        {"brokerName": "broker-a", "queueOffset": 3, "body": b"broker-a3"},
        {"brokerName": "broker-a", "queueOffset": 4, "body": b"broker-a4"},
        {"brokerName": "broker-b", "queueOffset": 8, "body": b"broker-b8"},
        {"brokerName": "broker-b", "queueOffset": 9, "body": b"broker-b9"},
    ]


def test_where_nothing_was_planned_nothing_is_read() -> None:
    assert list(reading_of(_options(), columns()).batches(InputPartition(None))) == []


def test_tags_are_compared_again_since_brokers_compare_hashes() -> None:
    assert only_of(_options(tags="a|| b ||")).tags == {"a", "b"}
    assert only_of(_options(tags="*")).tags == frozenset()
    assert only_of(_options(sql="a = 1")).tags == frozenset()


def test_a_column_that_no_message_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="column 'colour' is unknown"):
        reading_of(_options(), columns().add("colour", "string"))
