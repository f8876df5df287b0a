"""The columns of a topic."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kerolox.errors import ConfigurationError
from kerolox.spark.schema import columns_named, columns_of, topic_schema, with_value


def test_columns_have_a_fixed_order() -> None:
    assert topic_schema().fieldNames() == [
        "topic",
        "brokerName",
        "queueId",
        "queueOffset",
        "commitLogOffset",
        "msgId",
        "offsetMsgId",
        "keys",
        "tags",
        "bornTimestamp",
        "storeTimestamp",
        "bornHost",
        "reconsumeTimes",
        "body",
    ]
    assert topic_schema(include_properties=True).fieldNames()[-2:] == ["properties", "body"]
    assert topic_schema(include_damage=True).fieldNames()[-2:] == ["body", "damage"]
    assert with_value(topic_schema(), LongType()).fieldNames()[-3:] == ["body", "value", "valueError"]


def test_arrow_types_equal_those_of_spark() -> None:
    schema = topic_schema(include_properties=True, include_damage=True)

    assert columns_of(schema).arrow.equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_schema_may_have_few_columns_in_any_order() -> None:
    asked = columns_of(
        StructType([StructField("queueOffset", LongType(), nullable=False), StructField("tags", StringType())])
    )

    assert asked.names == ("queueOffset", "tags")
    assert [field.nullable for field in asked.arrow] == [False, True]


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"column 'offset' is unknown; there are topic, .*queueOffset"):
        columns_of(StructType([StructField("offset", LongType())]))


def test_a_column_of_another_type_is_refused_with_its_type() -> None:
    with pytest.raises(ConfigurationError, match=r"'queueOffset' is bigint, and .schema\(...\) says int"):
        columns_of(StructType([StructField("queueOffset", IntegerType())]))


def test_columns_built_elsewhere_are_left_out() -> None:
    schema = with_value(topic_schema(), LongType())

    assert columns_of(schema, besides=("value", "valueError")).names == columns_of(topic_schema()).names


def test_wanted_columns_can_be_pickled() -> None:
    asked = columns_named("topic", "body")

    assert pickle.loads(pickle.dumps(asked)) == asked
