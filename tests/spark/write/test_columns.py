"""Encoding of rows as messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from kerolox.message.properties import parse
from kerolox.spark.option_parser import OptionError
from kerolox.spark.write import columns as write_columns
from kerolox.spark.write.columns import EncodedRow, RowEncoder, RowError, WriteColumns


def test_each_column_becomes_a_part_of_the_message() -> None:
    (row,) = encode(
        [
            {
                "topic": "orders",
                "body": b"hello",
                "keys": ["a", "b"],
                "tags": "new",
                "properties": {"colour": "red", "none": None},
                "shardingKey": "7",
            }
        ]
    )

    properties = parse(row[2])
    assert (*row[:2], *row[3:]) == ("orders", b"hello", "7", False)
    assert len(properties.pop("UNIQ_KEY")) == 32
    assert properties == {"KEYS": "a b", "TAGS": "new", "__SHARDINGKEY": "7", "colour": "red"}


def test_body_and_keys_may_be_strings() -> None:
    (row,) = encode([{"value": "größe", "keys": "a b"}], topic="orders")

    assert row[:2] == ("orders", "größe".encode())
    assert parse(row[2])["KEYS"] == "a b"


def test_option_topic_overrides_the_column() -> None:
    assert [row[0] for row in encode([{"topic": "a", "body": b"x"}], topic="b")] == ["b"]


@pytest.mark.parametrize(
    ("column", "value", "name", "text"),
    [
        ("delay", timedelta(seconds=2), "TIMER_DELAY_MS", "2000"),
        ("delay", 1500, "TIMER_DELAY_MS", "1500"),
        ("delayLevel", 3, "DELAY", "3"),
        ("deliverAt", datetime(2026, 1, 31, tzinfo=UTC), "TIMER_DELIVER_MS", "1769817600000"),
    ],
)
def test_delay_columns_become_properties_of_the_broker(column: str, value: object, name: str, text: str) -> None:
    later, now = encode([{"body": b"x", column: value}, {"body": b"x", column: None}], topic="orders")

    assert parse(later[2])[name] == text
    assert (later[4], now[4]) == (True, False)


def test_a_repeated_row_has_the_same_key_in_any_order() -> None:
    """After a shuffle Spark may repeat a partition with its rows in another order."""
    rows = [{"body": b"%d" % number, "keys": str(number % 3)} for number in range(20)]

    assert sorted(keys(rows)) == sorted(keys(rows[::-1]))
    assert dict(zip(bodies(rows), keys(rows), strict=True)) == dict(
        zip(bodies(rows[::-1]), keys(rows[::-1]), strict=True)
    )


def test_no_two_rows_have_the_same_key() -> None:
    equal = [{"body": b"same"}] * 5
    other = [{"body": b"same", "tags": "a"}, {"body": b"same", "keys": "a"}]

    found = [*keys(equal), *keys(other), *keys(equal, scope="another batch"), *keys(equal, topic="another")]

    assert len(set(found)) == len(found)
    assert keys(equal) == keys(equal)


def test_the_number_of_remembered_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_columns, "_REMEMBERED_KEYS_MAX", 3)

    found = keys([{"body": b"same"}] * 10)

    assert len(set(found)) == 10


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"topic": None, "body": b"x"}, "row 1 of this partition, topic None: the column topic is empty"),
        ({"topic": "t", "body": None}, "row 1 of this partition, topic 't': the column body is empty"),
        ({"topic": "t", "body": b""}, "brokers refuse empty bodies"),
        ({"topic": "t", "body": b"x", "tags": "a\1b"}, "must not contain 0x01 or 0x02"),
        ({"topic": "t", "body": b"x", "keys": ["a b"]}, "spaces separate keys"),
        ({"topic": "t", "body": b"x", "tags": "a" * 32_767}, "take 32815 bytes, more than the limit of 32767"),
        ({"topic": "t", "body": b"x", "properties": {"UNIQ_KEY": "1"}}, "property 'UNIQ_KEY' is reserved by RocketMQ"),
    ],
)
def test_an_invalid_row_is_named(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError) as raised:
        encode([{"topic": "good", "body": b"good"}, row])

    assert reason in str(raised.value)


BODY = StructField("body", BinaryType())
TOPIC = StructField("topic", StringType())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([TOPIC], "one column named body (or value) is needed"),
        ([TOPIC, BODY, StructField("value", StringType())], "one column named body (or value) is needed"),
        ([BODY], "option topic is missing, and there is no column topic"),
        ([TOPIC, BODY, StructField("queueId", IntegerType())], "column queueId cannot be written: drop it, or put it"),
        ([TOPIC, StructField("body", LongType())], "column body is bigint, expected binary or string: cast it"),
        ([TOPIC, BODY, StructField("keys", ArrayType(LongType()))], "column keys is array<bigint>, expected string or"),
        (
            [TOPIC, BODY, StructField("delay", LongType()), StructField("delayLevel", IntegerType())],
            "columns delay and delayLevel contradict each other",
        ),
    ],
)
def test_columns_that_cannot_be_written_are_refused(fields: list[StructField], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        WriteColumns.of(StructType(fields), None)

    assert reason in str(raised.value)


def test_nullability_of_columns_does_not_matter() -> None:
    kind = MapType(StringType(), StringType(), valueContainsNull=False)

    assert WriteColumns.of(StructType([TOPIC, BODY, StructField("properties", kind)]), None).body == "body"


def encode(rows: list[dict[str, Any]], topic: str | None = None, scope: str = "query/1/0") -> list[EncodedRow]:
    names = dict.fromkeys(name for row in rows for name in row)
    types = {"properties": pa.map_(pa.string(), pa.string())}
    arrays = {}
    for name in names:
        values = [row.get(name) for row in rows]
        values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        arrays[name] = pa.array(values, types.get(name))
    columns = WriteColumns(frozenset(names), "body" if "body" in names else "value")
    return list(RowEncoder(columns, topic, scope).encode(pa.RecordBatch.from_pydict(arrays)))


def keys(rows: list[dict[str, Any]], topic: str = "orders", scope: str = "query/1/0") -> list[str]:
    return [parse(row[2])["UNIQ_KEY"] for row in encode(rows, topic, scope)]


def bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows]
