"""An audit counts lost and duplicated messages, and the progress of groups."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.client.tracing.trace_format import DELAY, TRANSACTION_HALF, EndTransaction, Pub, Record
from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.audit import AuditOptions, audit
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers
from tests.spark.pipelines.test_trace import JAVA_BATCH, consumed, send_traces

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def rows_of(spark: SparkSession, options: AuditOptions) -> dict[str | None, dict[str, int | None]]:
    found = {}
    for row in audit(spark, options).collect():
        values = row.asDict()
        assert values.pop("topic") == options.topic[0]
        found[values.pop("group")] = values
    return found


def test_lost_duplicated_and_waiting_messages_are_counted(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    started = int(time.time() * 1000)
    frame = spark.range(10).selectExpr("CAST(id AS STRING) AS body").coalesce(1)
    writer = frame.write.format("rocketmq").options(nameServer=cluster.namesrv_addr, topic=topic, writeId="same")
    for _ in range(2):
        # All ten messages are sent twice.
        writer.mode("append").save()
    stored = spark.read.format("rocketmq").options(nameServer=cluster.namesrv_addr, subscribe=topic).load().collect()
    ids = sorted({row.msgId for row in stored})
    now = int(time.time() * 1000)
    records: list[Record] = [
        Pub(timestamp=now, group="shop", topic=topic, message_id=name) for name in (*ids, "LOST", "LOST", "LOST2")
    ]
    records += [
        Pub(timestamp=now, group="shop", topic=topic, message_id="FAILED", is_success=False),
        Pub(timestamp=now, group="shop", topic=topic, message_id="LATER", message_type=DELAY),
        Pub(timestamp=now, group="shop", topic=topic, message_id="HALF", message_type=TRANSACTION_HALF),
        EndTransaction(timestamp=now, topic=topic, message_id="HALF", transaction_state="ROLLBACK_MESSAGE"),
    ]
    group = f"{topic}-group"
    for name in ids[:-1]:
        records += consumed(name, now, 1, group=group)
    records += consumed(ids[0], now + 1, 1, group=group)
    traces = f"{topic}-traces"
    cluster.create(traces)
    send_traces(cluster, traces, records)
    cluster.admin.groups.create(group)
    for (broker, queue_id), last in _ends(stored).items():
        cluster.admin.offsets.commit(group, MessageQueue(broker, queue_id, topic), last)
    late = cluster.send(topic, b"late", queue_id=0)
    options = AuditOptions(
        name_server=cluster.namesrv_addr,
        since=str(started),
        topic=(topic,),
        trace_topic=traces,
        output=str(tmp_path / "out"),
    )

    found = rows_of(spark, options)

    assert found[None] == {
        "produced": 13,
        "stored": 20 + len(late),
        "consumed": None,
        "waiting": None,
        "lost": 2,
        "duplicated": 10,
    }
    # The group never succeeded with the last message, and processed the first one twice.
    assert found[group] == {
        "produced": None,
        "stored": 21,
        "consumed": 20,
        "waiting": 1,
        "lost": 1,
        "duplicated": 1,
    }
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2
    assert rows_of(
        spark, AuditOptions(name_server=cluster.namesrv_addr, since="0", until=str(started), topic=(topic,))
    ) == {None: {"produced": None, "stored": 0, "consumed": None, "waiting": None, "lost": None, "duplicated": 0}}


def _ends(rows: list[Row]) -> dict[tuple[str, int], int]:
    ends: dict[tuple[str, int], int] = {}
    for row in rows:
        queue = row.brokerName, row.queueId
        ends[queue] = max(ends.get(queue, 0), row.queueOffset + 1)
    return ends


def test_a_java_batch_send_counts_as_its_number_of_messages(spark: SparkSession, cluster: Brokers, topic: str) -> None:
    cluster.send(topic, b"a", b"b")
    read_options = {"nameServer": cluster.namesrv_addr, "subscribe": topic}
    ids = [row.msgId for row in spark.read.format("rocketmq").options(**read_options).load().collect()]
    traces = f"{topic}-traces"
    cluster.create(traces)
    cluster.send(traces, JAVA_BATCH.format(ids=",".join((*ids, "LOST"))).replace("orders", topic).encode())
    options = AuditOptions(name_server=cluster.namesrv_addr, since="0", topic=(topic,), trace_topic=traces)

    found = rows_of(spark, options)[None]

    assert (found["produced"], found["stored"], found["lost"]) == (3, 2, 1)


def test_a_store_can_be_read_instead_of_its_broker(
    spark: SparkSession, tmp_path: Path, topic: str, cluster: Brokers
) -> None:
    cluster.fill(topic, 50)
    store = cluster.brokers["broker-a"].store.config.store_path_root_dir
    options = AuditOptions(name_server=cluster.namesrv_addr, since="0", topic=(topic,), store=str(store))

    assert rows_of(spark, options)[None]["stored"] == 50


def test_option_store_is_refused_if_there_are_several_brokers(spark: SparkSession, tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as two:
        two.create("orders")
        options = AuditOptions(name_server=two.namesrv_addr, since="0", topic=("orders",), store=str(tmp_path))
        with pytest.raises(OptionError, match="store has the messages of one broker, and there are broker-a, broker-b"):
            audit(spark, options)
