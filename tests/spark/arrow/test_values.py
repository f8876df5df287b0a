"""Values parsed from bodies; an invalid body keeps its row, with the reason."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kerolox.spark.arrow.values import ValueColumns, parse_value_format, with_value_columns
from kerolox.spark.option_parser import OptionError
from kerolox.spark.schema import topic_schema

PLAIN = StructType([field for field in topic_schema() if field.name in ("queueOffset", "body")])
ORDERS = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
            {"name": "codes", "type": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}}},
        ],
    }
)


def test_binary_values_are_the_bodies() -> None:
    assert values_and_errors([b"\xff", b""], valueFormat="binary") == [(b"\xff", None), (b"", None)]


def test_invalid_utf8_is_reported_per_row() -> None:
    (good, bad, last) = values_and_errors(["größe".encode(), b"a\xff", b"z"], valueFormat="string")

    assert (good, last) == (("größe", None), ("z", None))
    assert bad[0] is None
    assert bad[1] is not None
    assert "invalid start byte" in bad[1]


def test_json_has_the_columns_of_its_schema() -> None:
    body = b'{"id": 7, "lines": [{"sku": "a"}, null], "extra": 1, "at": "2026-01-31T12:00:00Z", "price": "1.50"}'
    schema = "id BIGINT, lines ARRAY<STRUCT<sku: STRING>>, at TIMESTAMP, price DECIMAL(9,2), missing STRING"

    assert values_and_errors([body], valueFormat="json", valueSchema=schema) == [
        (
            {
                "id": 7,
                "lines": [{"sku": "a"}, None],
                "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
                "price": Decimal("1.50"),
                "missing": None,
            },
            None,
        )
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON of this schema: Input data was truncated"),
        (b"\xff", "not JSON of this schema"),
        (b'{"id": "seven"}', "Expected `int | null`, got `str`"),
        (b'{"id": 3000000000}', "Expected `int` <= 2147483647"),
        (b'{"price": "123.4567"}', "Rescaling Decimal value would cause data loss"),
        (b"[1]", "Expected `object`, got `array`"),
    ],
)
def test_invalid_json_is_reported_per_row(body: bytes, reason: str) -> None:
    found = values_and_errors(
        [b'{"id": 1}', body, b'{"id": 2}'], valueFormat="json", valueSchema="id INT, price DECIMAL(5,2)"
    )

    assert [value and value["id"] for value, _ in found] == [1, None, 2]
    assert found[0][1] is None
    assert reason in (found[1][1] or "")


def test_avro_has_the_columns_of_its_schema() -> None:
    order = {
        "id": 7,
        "note": None,
        "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        "price": Decimal("1.50"),
        "kind": "OLD",
        "counts": {"a": 1},
        "codes": ["00000000-0000-0000-0000-000000000001"],
    }

    ((value, error),) = values_and_errors([avro(order)], valueFormat="avro", valueSchema=ORDERS)

    assert error is None
    assert {**value, "counts": dict(value["counts"])} == order


def test_invalid_avro_is_reported_per_row() -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]})

    found = values_and_errors([b"\x04ab", b"\x04a", b"", b"\x04abc"], valueFormat="avro", valueSchema=schema)

    assert found[0] == ({"id": "ab"}, None)
    assert [value for value, _ in found[1:]] == [None, None, None]
    assert all("not Avro of this schema" in (error or "") for _, error in found[1:])
    assert "1 trailing bytes" in (found[3][1] or "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueSchema": "id INT"}, "valueSchema needs valueFormat"),
        ({"valueFormat": "xml"}, "valueFormat is 'xml': give one of binary, string, json, avro"),
        ({"valueFormat": "json"}, "valueSchema is missing"),
        ({"valueFormat": "string", "valueSchema": "id INT"}, "has no meaning for valueFormat string"),
        ({"valueFormat": "json", "valueSchema": "id INTEGERS"}, "expected a type before 'INTEGERS'"),
        ({"valueFormat": "json", "valueSchema": "m MAP<INT, INT>"}, "only strings can be keys"),
        ({"valueFormat": "avro", "valueSchema": "{"}, "give an Avro schema as JSON"),
        ({"valueFormat": "avro", "valueSchema": '{"type": "no"}'}, "give an Avro schema as JSON"),
        ({"valueFormat": "avro", "valueSchema": '["int", "string"]'}, "union of several types"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_value_format(options)

    assert reason in str(raised.value)


def test_without_a_format_there_is_no_value_column() -> None:
    assert parse_value_format({}) is None
    assert with_value_columns(PLAIN, None) is PLAIN


def test_a_schema_may_have_values_without_bodies() -> None:
    value_format = parse_value_format({"valueFormat": "string"})
    schema = StructType([StructField("value", StringType()), StructField("queueOffset", LongType())])
    values = pickle.loads(pickle.dumps(ValueColumns(value_format, schema)))

    batch = values.add(pa.RecordBatch.from_pylist([{"queueOffset": 1, "body": b"a"}], schema=values.wanted.arrow))

    assert values.wanted.names == ("queueOffset", "body")
    assert batch.to_pylist() == [{"value": "a", "queueOffset": 1}]
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_value_type_that_differs_from_the_format_is_refused() -> None:
    schema = StructType([StructField("value", LongType())])

    with pytest.raises(OptionError, match=r"column value is string by valueFormat string, and .* says bigint"):
        ValueColumns(parse_value_format({"valueFormat": "string"}), schema)


def values_and_errors(bodies: list[bytes], **options: str) -> list[tuple[Any, str | None]]:
    value_format = parse_value_format(options)
    schema = with_value_columns(PLAIN, value_format)
    values = ValueColumns(value_format, schema)
    rows = [{"queueOffset": number, "body": body} for number, body in enumerate(bodies)]

    batch = values.add(pa.RecordBatch.from_pylist(rows, schema=values.wanted.arrow))

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert [row["body"] for row in batch.to_pylist()] == bodies
    return [(row["value"], row["valueError"]) for row in batch.to_pylist()]


def avro(value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(ORDERS)), value)
    return stream.getvalue()
