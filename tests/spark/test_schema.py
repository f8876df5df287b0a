"""The columns of a topic."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kerolox.errors import ConfigurationError
from kerolox.spark.schema import columns, wanted, wanted_columns, with_value


def test_the_columns_stand_in_the_order_people_read_them() -> None:
    assert columns().fieldNames() == [
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
    assert columns(include_properties=True).fieldNames()[-2:] == ["properties", "body"]
    assert columns(include_damage=True).fieldNames()[-2:] == ["body", "damage"]
    assert with_value(columns(), LongType()).fieldNames()[-3:] == ["body", "value", "valueError"]


def test_what_we_make_is_what_spark_expects_of_these_columns() -> None:
    schema = columns(include_properties=True, include_damage=True)

    assert wanted(schema).arrow.equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_user_may_ask_for_few_columns_in_any_order() -> None:
    asked = wanted(
        StructType([StructField("queueOffset", LongType(), nullable=False), StructField("tags", StringType())])
    )

    assert asked.names == ("queueOffset", "tags")
    assert [field.nullable for field in asked.arrow] == [False, True]


def test_a_column_that_no_record_has_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"column 'offset' is unknown; there are topic, .*queueOffset"):
        wanted(StructType([StructField("offset", LongType())]))


def test_a_column_of_another_type_is_refused_with_the_type_it_has() -> None:
    with pytest.raises(ConfigurationError, match=r"'queueOffset' is bigint, and .schema\(...\) says int"):
        wanted(StructType([StructField("queueOffset", IntegerType())]))


def test_columns_that_are_made_elsewhere_are_left_to_others() -> None:
    schema = with_value(columns(), LongType())

    assert wanted(schema, besides=("value", "valueError")).names == wanted(columns()).names


def test_what_is_wanted_travels_to_the_workers() -> None:
    asked = wanted_columns("topic", "body")

    assert pickle.loads(pickle.dumps(asked)) == asked
