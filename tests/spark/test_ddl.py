"""Schemas in Spark's DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kerolox.spark.ddl import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = [
    "id BIGINT, name STRING",
    "a: int, b: tinyint, c smallint, d float, e double, f date, g timestamp, h timestamp_ntz, i binary, j boolean",
    "price DECIMAL(12, 2), whole decimal, tax dec(5)",
    "lines ARRAY<STRUCT<sku: STRING, count: INT>>, tags map<string, array<long>>",
    "`order id` string, `array` int, `a``b` int, `größe` int",
    "id BIGINT NOT NULL, s struct<a int, b struct<c: string>>",
]


def test_all_types_are_parsed() -> None:
    assert parse("id BIGINT NOT NULL, `n-1` string, whole int") == StructType(
        [StructField("id", LongType(), False), StructField("n-1", StringType()), StructField("whole", IntegerType())]
    )


@pytest.mark.parametrize("text", SCHEMAS)
def test_the_result_equals_that_of_spark(spark: SparkSession, text: str) -> None:
    assert parse(text) == StructType.fromDDL(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a name before 'the end'"),
        ("id", "expected a type before 'the end'"),
        ("id BIGINTEGER, b int", "expected a type before 'BIGINTEGER , b int'"),
        ("a array<int", "expected '>' before 'the end'"),
        ("a int b int", "expected the end before 'b int'"),
        ("a map<string>", "expected ',' before '>'"),
        ("a int, , b int", "expected a name before ', b int'"),
        ("a !int", "' !int' is neither a name nor a type"),
        ("a int not", "expected 'null' before 'the end'"),
    ],
)
def test_a_syntax_error_names_the_position(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        parse(text)
