"""Writes tables to topics of Apache's brokers with the sink's tasks, and reads the messages back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kerolox.admin.sync import AdminClient
from kerolox.spark.options import read_options
from kerolox.spark.read.task import read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.sink import PartitionCommit, TableWrite, WriteOptions
from kerolox.spark.source import BatchReader, RocketMQ
from kerolox.spark.write.writer import DeliveryTimeUnsupported, WriteFailed
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.waiting import eventually, until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.told("writing")]

COUNT = 3000
TOPICS = ("plain", "ordered", "repeated", "delayed", "first", "second", "timed-delay", "timed-deliverAt")


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def namesrv_addr(version: str) -> Iterator[str]:
    require_java()
    with ExitStack() as stack:
        address = stack.enter_context(servers.name_server(version)).address
        for name in ("broker-a", "broker-b"):
            stack.enter_context(servers.broker(version, address, name=name))
            asyncio.run(until_listed(address, name))
        admin = stack.enter_context(AdminClient(namesrv_addr=address, timeout_seconds=30))
        for topic in TOPICS:
            admin.topics.create(topic, read_queues=2, write_queues=2)
        yield address


def _write(address: str, table: Mapping[str, Any], *, scope: str = "test/0", **options: str) -> dict[str, int]:
    """Write a table like a task of Spark, in several Arrow batches; one send may contain rows of several batches."""
    batch = pa.RecordBatch.from_pydict(dict(table))
    given = WriteOptions.of({"nameServer": address, "batchBytes": "20000", **options}, is_stream=False)
    batches = [batch.slice(first, 500) for first in range(0, batch.num_rows, 500)]
    written = TableWrite(given, from_arrow_schema(batch.schema)).partition(iter(batches), scope)
    assert isinstance(written, PartitionCommit)
    return written.counts


def _read(address: str, topic: str, count: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a topic in the order of its queues, once there are at least `count`.

    Java serves stored messages with a delay.
    """
    rows: list[dict[str, Any]] = []

    def has_all() -> bool:
        rows[:] = _rows(address, topic)
        return len(rows) >= count

    eventually(has_all, 60.0, f"{count} rows")
    return rows


def _rows(address: str, topic: str) -> list[dict[str, Any]]:
    options = read_options({"nameServer": address, "subscribe": topic}, is_stream=False)
    reader = BatchReader(read_task(options, topic_schema(include_properties=True)))
    rows = [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["brokerName"], row["queueId"], row["queueOffset"]))


def test_all_columns_arrive_and_both_brokers_get_rows(namesrv_addr: str) -> None:
    table = {
        "body": [b"%d" % number for number in range(COUNT)],
        "keys": [f"k{number}" for number in range(COUNT)],
        "tags": ["even" if number % 2 == 0 else "odd" for number in range(COUNT)],
        "properties": pa.array([[("n", str(number))] for number in range(COUNT)], pa.map_(pa.string(), pa.string())),
    }

    assert _write(namesrv_addr, table, topic="plain") == {"plain": COUNT}

    rows = _read(namesrv_addr, "plain", COUNT)
    assert sorted(int(row["body"]) for row in rows) == list(range(COUNT))
    assert {row["brokerName"] for row in rows} == {"broker-a", "broker-b"}
    for row in rows:
        number = int(row["body"])
        found = row["keys"], row["tags"], dict(row["properties"])["n"]
        assert found == (f"k{number}", "even" if number % 2 == 0 else "odd", str(number))


def test_rows_with_one_sharding_key_are_in_one_queue_in_order(namesrv_addr: str) -> None:
    table = {
        "body": [b"%d" % number for number in range(COUNT)],
        "shardingKey": [f"key-{number % 7}" for number in range(COUNT)],
    }

    _write(namesrv_addr, table, topic="ordered", batchBytes="2000")

    queues = defaultdict(set)
    numbers = defaultdict(list)
    for row in _read(namesrv_addr, "ordered", COUNT):
        key = int(row["body"]) % 7
        queues[key].add((row["brokerName"], row["queueId"]))
        numbers[key].append(int(row["body"]))
    assert {key: len(found) for key, found in queues.items()} == dict.fromkeys(range(7), 1)
    assert dict(numbers) == {key: list(range(key, COUNT, 7)) for key in range(7)}


def test_rows_written_again_have_the_same_unique_keys(namesrv_addr: str) -> None:
    table = {"body": [b"%d" % number for number in range(100)]}

    for _ in range(2):
        _write(namesrv_addr, table, topic="repeated", scope="query/7/0")

    keys = [row["msgId"] for row in _read(namesrv_addr, "repeated")]
    assert (len(keys), len(set(keys))) == (200, 100)


def test_rows_can_name_their_topics(namesrv_addr: str) -> None:
    table = {
        "topic": [("first", "second")[number % 2] for number in range(1000)],
        "body": [b"%d" % number for number in range(1000)],
    }

    assert _write(namesrv_addr, table) == {"first": 500, "second": 500}

    assert sorted(int(row["body"]) for row in _read(namesrv_addr, "second")) == list(range(1, 1000, 2))


def test_a_delayed_row_is_not_delivered_early(namesrv_addr: str) -> None:
    table = {"body": [b"later", b"now"], "delayLevel": pa.array([18, None], pa.int32())}

    assert _write(namesrv_addr, table, topic="delayed") == {"delayed": 2}

    assert [row["body"] for row in _read(namesrv_addr, "delayed")] == [b"now"]


def test_delivery_times_that_brokers_ignore_are_refused_before_anything_is_sent(
    namesrv_addr: str, version: str
) -> None:
    """4.x brokers would accept the rows, and deliver them at once."""
    for column, value in {"delay": timedelta(hours=1), "deliverAt": datetime.now(UTC) + timedelta(hours=1)}.items():
        topic = f"timed-{column}"
        table = {"body": [b"now", b"later"], column: [None, value]}
        if version.startswith("4."):
            _check_refused(namesrv_addr, table, topic, column)
        else:
            assert _write(namesrv_addr, table, topic=topic) == {topic: 2}
            assert [row["body"] for row in _read(namesrv_addr, topic, 1)] == [b"now"]


def _check_refused(address: str, table: Mapping[str, Any], topic: str, column: str) -> None:
    expected = rf"column {column} .*topic '{topic}' .*\(broker-a, broker-b\), .* use the column delayLevel"
    schema = from_arrow_schema(pa.RecordBatch.from_pydict(dict(table)).schema)
    source = RocketMQ({"nameServer": address, "topic": topic})
    for plan in (source.writer, source.streamWriter):
        with pytest.raises(DeliveryTimeUnsupported, match=expected):
            plan(schema, False)
    # If rows name their topics, the first row with a delivery time is refused.
    with pytest.raises(DeliveryTimeUnsupported, match=expected):
        _write(address, {**table, "topic": [topic, topic]})
    assert _read(address, topic) == []


def test_the_error_for_a_refused_row_names_its_topic_and_the_reason(namesrv_addr: str) -> None:
    table = {"body": [b"x" * (5 * 1024 * 1024)]}

    with pytest.raises(WriteFailed, match=r"topic 'plain': .*MESSAGE_ILLEGAL, 13"):
        _write(namesrv_addr, table, topic="plain", retryTimeout="1000")
