"""Summaries of traces: latencies and success rates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerolox.client.tracing.trace_format import Pub, Record, SubAfter, SubBefore, messages_of
from kerolox.spark.pipelines.trace import TraceOptions, trace
from kerolox.spark.pipelines.trace_bodies import rows_of
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_769_860_800_000


def consumed(message_id: str, at: int, cost: int, *, is_success: bool = True, group: str = "billing") -> list[Record]:
    request = f"R{message_id}{at}"
    return [
        SubBefore(timestamp=at, group=group, request_id=request, message_id=message_id),
        SubAfter(
            timestamp=at + cost,
            group=group,
            request_id=request,
            message_id=message_id,
            cost_millis=cost,
            is_success=is_success,
        ),
    ]


def send_traces(cluster: Brokers, topic: str, records: list[Record]) -> None:
    cluster.send(topic, *(message.body for message in messages_of(records, topic)))


def test_latency_and_success_rate_are_reported_by_topic_and_group(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    records: list[Record] = [
        Pub(timestamp=START + n, group="shop", topic="orders", message_id=f"M{n}", cost_millis=n, is_success=n != 100)
        for n in range(1, 101)
    ]
    for n in range(1, 11):
        records += consumed(f"M{n}", START + n + 40, 5, is_success=n > 2)
    records.append(Pub(timestamp=START - 1, group="shop", topic="orders", message_id="early", cost_millis=9999))
    send_traces(cluster, topic, records)
    cluster.send(topic, b"no trace at all", b"\xff")
    options = TraceOptions(
        name_server=cluster.namesrv_addr,
        topic=topic,
        since="2026-01-31T12:00:00",
        until=str(START + 3_600_000),
        output=str(tmp_path / "out"),
    )

    rows = [row.asDict() for row in trace(spark, options).collect()]

    assert rows == [
        {
            "side": "consume",
            "topic": "orders",
            "group": "billing",
            "messages": 10,
            "succeeded": 8,
            "successRate": 0.8,
            "p50": 5.0,
            "p90": 5.0,
            "p99": 5.0,
            "delayP50": 40.0,
            "delayP99": 40.0,
        },
        {
            "side": "produce",
            "topic": "orders",
            "group": "shop",
            "messages": 100,
            "succeeded": 99,
            "successRate": 0.99,
            "p50": 50.5,
            "p90": 90.1,
            "p99": 99.01,
            "delayP50": None,
            "delayP99": None,
        },
    ]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2


def test_the_delay_is_null_if_one_time_is_unknown(spark: SparkSession, cluster: Brokers, topic: str) -> None:
    sent = Pub(timestamp=START, group="shop", topic="orders", message_id="M1", cost_millis=1)
    _, after = consumed("M1", START + 40, 5, group="no beginning")
    send_traces(cluster, topic, [sent, after, *consumed("M2", START + 40, 5, group="not sent")])

    rows = trace(spark, TraceOptions(name_server=cluster.namesrv_addr, topic=topic)).collect()

    delays = {(row.topic, row.group): (row.messages, row.delayP50, row.delayP99) for row in rows}
    assert delays["orders", "no beginning"] == (1, None, None)
    assert delays[None, "not sent"] == (1, None, None)


def test_bodies_that_are_not_traces_are_skipped() -> None:
    assert rows_of(b"\xff") == rows_of(b"hello") == rows_of(b"Pub\x01never\x02") == []


# The trace of a batch of three, as TraceDataEncoder.java encodes the context of SendMessageTraceHookImpl.java.
JAVA_BATCH = (
    "Pub\x011769860800000\x01DefaultRegion\x01shop\x01orders\x01{ids}\x01null\x01null\x01127.0.0.1:10911\x01300\x017\x010\x01"
    "7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000C8,7F00000100002A9F0000000000000190\x01true\x02"
)


def test_a_trace_of_a_java_batch_send_is_a_row_for_each_message() -> None:
    rows = rows_of(JAVA_BATCH.format(ids="A1,A2,A3").encode())

    expected = {"kind": "Pub", "topic": "orders", "group": "shop", "isSuccess": True, "costMillis": 7, "messageType": 0}
    assert [row["msgId"] for row in rows] == ["A1", "A2", "A3"]
    assert all(expected.items() <= row.items() for row in rows)
