"""Options of streams and of the sink, with Spark and brokers."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from kerolox.spark import register
from tests.spark.clusters import Brokers, numbered
from tests.spark.write.test_writer import stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Bodies 0 to 9 are red and in the first queue of broker-a, 10 to 19 are blue and in that of broker-b.
RED, BLUE = list(range(10)), list(range(10, 20))
SCHEMA = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    settings = {"enablePropertyFilter": "true"}
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b", **settings) as cluster:
        cluster.create("colours", 1)
        for number in RED:
            cluster.send("colours", b"%d" % number, tag="red", properties={"number": str(number)})
        for number in BLUE:
            properties = {"number": str(number)}
            cluster.send("colours", b"%d" % number, broker="broker-b", tag="blue", properties=properties)
        cluster.admin.groups.create("half-way")
        for queue in cluster.admin.topics.route("colours").read_queues:
            cluster.admin.offsets.commit("half-way", queue, 5)
        yield cluster


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


def stream(spark: SparkSession, cluster: Brokers, **options: Any) -> DataFrame:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    if not {"subscribe", "subscribePattern", "assign"} & set(texts):
        texts["subscribe"] = "colours"
    return spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv_addr).options(**texts).load()


def _times(cluster: Brokers) -> list[int]:
    reader = cluster.brokers["broker-a"].store.reader
    return [reader.store_time("colours", 0, offset) for offset in range(10)]


def _since(cluster: Brokers, number: int) -> list[int]:
    """Return the red messages stored at the time of this one or later."""
    times = _times(cluster)
    return [each for each in RED if times[each] >= times[number]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (lambda _: {"subscribePattern": "col.*s", "startingOffsets": "earliest"}, lambda _: RED + BLUE),
        (lambda _: {"assign": {"colours": {"broker-a": [0]}}, "startingOffsets": "earliest"}, lambda _: RED),
        (lambda _: {"startingOffsets": {"colours": {"broker-a": {"0": 8}, "broker-b": {"0": -1}}}}, lambda _: [8, 9]),
        (lambda _: {"startingGroup": "half-way"}, lambda _: [5, 6, 7, 8, 9, 15, 16, 17, 18, 19]),
        (lambda _: {"startingOffsets": "earliest", "tags": "blue || green"}, lambda _: BLUE),
        (lambda _: {"startingOffsets": "earliest", "sql": "number BETWEEN 8 AND 11"}, lambda _: [8, 9, 10, 11]),
        (
            lambda cluster: {"startingTimestamp": str(_times(cluster)[4])},
            lambda cluster: _since(cluster, 4) + BLUE,
        ),
        (
            lambda cluster: {
                "startingOffsetsByTimestamp": {"colours": {"broker-a": {"0": _times(cluster)[4]}}},
                "assign": {"colours": {"broker-a": [0]}},
            },
            lambda cluster: _since(cluster, 4),
        ),
        (lambda _: {"startingOffsets": "earliest", "maxBytesPerTrigger": "700"}, lambda _: RED + BLUE),
        (lambda _: {"startingOffsets": "earliest", "minPartitions": "5"}, lambda _: RED + BLUE),
    ],
    ids=["pattern", "assign", "offsets", "group", "tags", "sql", "time", "times", "bytes", "partitions"],
)
def test_a_stream_follows_its_options(
    spark: SparkSession,
    cluster: Brokers,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    options: Callable[[Brokers], dict[str, Any]],
    expected: Callable[[Brokers], list[int]],
) -> None:
    batches: list[list[int]] = []
    writer = stream(spark, cluster, **options(cluster)).writeStream.option("checkpointLocation", str(tmp_path))
    writer = writer.foreachBatch(lambda rows, _: batches.append([int(row.body) for row in rows.collect()]))

    writer.trigger(availableNow=True).start().awaitTermination()

    assert sorted(number for batch in batches for number in batch) == expected(cluster)
    is_cut = request.node.callspec.id == "bytes"
    assert (len([batch for batch in batches if batch]) > 1) == is_cut


def _follow(frame: DataFrame, name: str) -> StreamingQuery:
    rows = frame.selectExpr("CAST(body AS STRING) AS body").writeStream.format("memory").queryName(name)
    query = rows.trigger(processingTime="100 milliseconds").start()
    while not query.lastProgress:
        query.processAllAvailable()
    return query


def _wait_for(spark: SparkSession, query: StreamingQuery, bodies: list[str]) -> None:
    deadline = time.monotonic() + 120
    while sorted(row.body for row in spark.table(query.name or "").collect()) != bodies:
        assert time.monotonic() < deadline
        query.processAllAvailable()


def test_a_small_batch_waits_for_more_messages_or_the_maximum_delay(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("few", 1, "broker-a")
    patient = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "1h"}
    waiting = _follow(stream(spark, cluster, subscribe="few", startingOffsets="earliest", **patient), "waiting")
    try:
        cluster.send("few", *numbered(3))
        hasty = {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1s"}
        hurried = _follow(stream(spark, cluster, subscribe="few", startingOffsets="earliest", **hasty), "hurried")
        try:
            _wait_for(spark, hurried, ["0", "1", "2"])
        finally:
            hurried.stop()
        assert spark.table("waiting").count() == 0
        cluster.send("few", b"3", b"4")
        _wait_for(spark, waiting, ["0", "1", "2", "3", "4"])
    finally:
        waiting.stop()


def test_queues_of_another_broker_are_found_while_a_stream_runs(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("growing", 1, "broker-a")
    cluster.send("growing", b"a")
    query = _follow(stream(spark, cluster, subscribe="growing", startingOffsets="latest"), "growing")
    try:
        cluster.create("growing", 1, "broker-b")
        cluster.send("growing", b"b0", b"b1", broker="broker-b")
        _wait_for(spark, query, ["b0", "b1"])
    finally:
        query.stop()


def test_values_in_avro_are_columns(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("avro", 1, "broker-a")
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(json.loads(SCHEMA)), {"id": 7})
    cluster.send("avro", data.getvalue(), b"\xff\xff")
    options = {"nameServer": cluster.namesrv_addr, "subscribe": "avro", "valueFormat": "avro", "valueSchema": SCHEMA}

    rows = spark.read.format("rocketmq").options(**options).load().orderBy("queueOffset").collect()

    assert [(row.value and row.value.id, row.valueError is None) for row in rows] == [(7, True), (None, False)]


# The sink


def test_delayed_rows_are_delivered_on_time(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("later", 1)
    started = time.time() * 1000
    for column in ("1 AS delayLevel", "INTERVAL '1' SECOND AS delay", "now() + INTERVAL '1' SECOND AS deliverAt"):
        frame = spark.range(2).selectExpr("CAST(id AS STRING) AS body", column)
        write = frame.write.format("rocketmq").options(nameServer=cluster.namesrv_addr, topic="later")
        write.mode("append").save()

    deadline = time.monotonic() + 120
    while len(found := stored(cluster, "later", 1)) < 6:
        assert time.monotonic() < deadline

    assert sorted(record.body for record in found) == [b"0"] * 3 + [b"1"] * 3
    assert all(record.store_timestamp >= started + 500 for record in found)


def test_the_option_overrides_the_topic_and_rows_of_a_key_stay_in_order(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("keyed", 3)
    columns = "'elsewhere' AS topic", "CAST(id AS STRING) AS body", "concat('k', id % 7) AS shardingKey"
    frame = spark.range(0, 700, 1, 1).selectExpr(*columns)
    options = {"topic": "keyed", "batchBytes": "2000", "batchesInFlight": "4", "sendTimeout": "30s"}
    named = {"nameServer": cluster.namesrv_addr, "producerGroup": "keyed-rows"}

    frame.write.format("rocketmq").options(**options, **named).mode("append").save()

    by_key: dict[int, list[int]] = {}
    queues_by_key: dict[int, set[tuple[bytes, int]]] = {}
    for record in stored(cluster, "keyed", 3):
        number = int(record.body)
        by_key.setdefault(number % 7, []).append(number)
        queues_by_key.setdefault(number % 7, set()).add((record.store_host, record.queue_id))
    assert by_key == {key: list(range(key, 700, 7)) for key in range(7)}
    assert all(len(queues) == 1 for queues in queues_by_key.values())
