"""Time windows, each sent once it is closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerolox.errors import KeroloxError
from kerolox.spark.pipelines.aggregate import AggregateOptions, aggregate
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def order(minute: int, second: int, customer: int, price: float) -> bytes:
    time = f"2026-01-31T12:{minute:02d}:{second:02d}Z"
    return json.dumps({"time": time, "customer": customer, "price": price}).encode()


def sums(spark: SparkSession, cluster: Brokers, topic: str) -> list[dict[str, Any]]:
    read = spark.read.format("rocketmq").options(nameServer=cluster.namesrv_addr, subscribe=topic)
    return sorted(
        (json.loads(row.body) for row in read.load().collect()), key=lambda it: (it["customer"], it["windowStart"])
    )


def test_a_closed_window_is_sent_once_and_late_messages_are_dropped(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-sums"
    cluster.create(target)
    options = AggregateOptions(
        name_server=cluster.namesrv_addr,
        topic=(topic,),
        to=target,
        checkpoint=str(tmp_path / "state"),
        value_schema="time TIMESTAMP, customer INT, price DOUBLE",
        time="value.time",
        watermark="10 seconds",
        by=("value.customer AS customer",),
        sum=("count(*) AS orders", "sum(value.price) AS price"),
    )
    cluster.send(topic, order(0, 1, 7, 1.5), order(0, 59, 7, 2.0), order(0, 30, 8, 4.0), order(1, 5, 7, 8.0))
    # Not closed yet: a message that is ten seconds late may still arrive.
    assert aggregate(spark, options).rows == 4
    assert sums(spark, cluster, target) == []
    cluster.send(topic, order(0, 58, 8, 1.0), order(2, 10, 7, 3.0))

    assert aggregate(spark, options).rows == 2
    cluster.send(topic, order(0, 50, 8, 100.0), order(2, 11, 7, 3.0))
    aggregate(spark, options)

    first = {"windowStart": "2026-01-31T12:00:00.000Z", "windowEnd": "2026-01-31T12:01:00.000Z"}
    second = {"windowStart": "2026-01-31T12:01:00.000Z", "windowEnd": "2026-01-31T12:02:00.000Z"}
    assert sums(spark, cluster, target) == [
        {**first, "customer": 7, "orders": 2, "price": 3.5},
        {**second, "customer": 7, "orders": 1, "price": 8.0},
        {**first, "customer": 8, "orders": 2, "price": 5.0},
    ]


def test_messages_that_cannot_be_aggregated_are_counted_and_sent_to_bad_to(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    target, aside = f"{topic}-sums", f"{topic}-bad"
    cluster.create(target)
    cluster.create(aside)
    options = AggregateOptions(
        name_server=cluster.namesrv_addr,
        topic=(topic,),
        to=target,
        bad_to=aside,
        checkpoint=str(tmp_path / "state"),
        value_schema="time TIMESTAMP, customer INT",
        time="value.time",
        watermark="0 seconds",
        by=("value.customer AS customer",),
    )
    cluster.send(topic, order(0, 1, 7, 1.5), b"no JSON", b'{"customer": 8}', order(2, 1, 7, 1.5))
    cluster.send(topic, b'{"customer": "many"}', keys=["k7"], tag="odd", properties={"colour": "blue"})

    done = aggregate(spark, options)
    again = aggregate(spark, options)

    assert (done.rows, done.bad, again.rows, again.bad) == (5, 3, 0, 0)
    assert [it["count"] for it in sums(spark, cluster, target)] == [1]
    read = {"nameServer": cluster.namesrv_addr, "subscribe": aside, "includeProperties": "true"}
    rows = {bytes(row.body): row for row in spark.read.format("rocketmq").options(**read).load().collect()}
    reasons = {body: row.properties["VALUE_ERROR"] for body, row in rows.items()}
    assert sorted(reasons) == [b"no JSON", b'{"customer": "many"}', b'{"customer": 8}']
    assert "not JSON of this schema" in reasons[b"no JSON"]
    assert reasons[b'{"customer": 8}'] == "its time is missing or invalid: value.time"
    odd = rows[b'{"customer": "many"}']
    assert (odd["keys"], odd.tags, odd.properties["colour"]) == ("k7", "odd", "blue")
    assert odd.properties["ORIGINAL_TOPIC"] == topic


def test_an_invalid_expression_is_reported_in_one_sentence(spark: SparkSession, cluster: Brokers, topic: str) -> None:
    options = AggregateOptions(
        name_server=cluster.namesrv_addr, topic=(topic,), to="x", checkpoint="nowhere", sum=("sum(price) AS price",)
    )

    with pytest.raises(KeroloxError, match=r"aggregate: .*price.* cannot be resolved") as raised:
        aggregate(spark, options)

    assert "\n" not in str(raised.value)
