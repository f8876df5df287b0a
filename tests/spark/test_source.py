"""Topics as tables: every option with a real broker and a real Spark."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kerolox.spark import register
from tests.spark.clusters import Brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    settings = {"enablePropertyFilter": "true"}
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b", **settings) as cluster:
        cluster.create("orders")
        for broker in ("broker-a", "broker-b"):
            for queue_id in range(2):
                bodies = [f"{broker} {queue_id} {number}".encode() for number in range(10)]
                cluster.send("orders", *bodies, queue_id=queue_id, broker=broker)
        yield cluster


def _read(spark: SparkSession, cluster: Brokers, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", cluster.namesrv_addr)
    for name, value in options.items():
        reader = reader.option(
            name.replace("__", "."), value if isinstance(value, str | bool | int) else json.dumps(value)
        )
    return reader.load()


def _bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


def _all(*brokers: str, queues: range = range(2), numbers: range = range(10)) -> list[bytes]:
    return sorted(f"{b} {q} {n}".encode() for b in brokers or ("broker-a", "broker-b") for q in queues for n in numbers)


def test_spark_discovers_the_format_which_has_all_columns(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("columns", 1, "broker-a")
    before = datetime.now(UTC)
    cluster.send("columns", b"body", tag="new", keys=["k1", "k2"], properties={"colour": "red"})

    frame = _read(spark, cluster, subscribe="columns", includeProperties=True)
    (row,) = frame.collect()

    assert frame.columns == [
        *("topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "msgId", "offsetMsgId", "keys", "tags"),
        *("bornTimestamp", "storeTimestamp", "bornHost", "reconsumeTimes", "properties", "body"),
    ]
    assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == ("columns", "broker-a", 0, 0)
    assert (row["keys"], row.tags, bytes(row.body), row.reconsumeTimes) == ("k1 k2", "new", b"body", 0)
    assert row.properties["colour"] == "red"
    assert row.properties["UNIQ_KEY"] == row.msgId
    assert cluster.admin.messages.by_id(row.offsetMsgId).body == b"body"
    stored = row.storeTimestamp.replace(tzinfo=UTC)
    assert -1 < (stored - before).total_seconds() < 60
    assert row.bornHost.startswith("127.0.0.1")


def test_the_format_can_be_registered(spark: SparkSession, cluster: Brokers) -> None:
    register(spark)

    assert _read(spark, cluster, subscribe="orders").count() == 40


def test_the_name_server_option_has_rocketmq_synonyms(spark: SparkSession, cluster: Brokers) -> None:
    reader = spark.read.format("rocketmq").option("rocketmq.namesrv.addr", cluster.namesrv_addr)

    assert _bodies(reader.option("subscribe", "orders").load()) == _all()


def test_a_user_schema_selects_columns(spark: SparkSession, cluster: Brokers) -> None:
    frame = spark.read.format("rocketmq").schema("body binary, queueId int").options(subscribe="orders")

    rows = frame.option("nameServer", cluster.namesrv_addr).load().collect()

    assert sorted(bytes(row.body) for row in rows) == _all()
    assert rows[0].__fields__ == ["body", "queueId"]


def test_topics_a_pattern_or_assigned_queues_are_read(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("orders-2", 1, "broker-b")
    cluster.send("orders-2", b"second", broker="broker-b")

    subscribed = _read(spark, cluster, subscribe="orders, orders-2")
    matching = _read(spark, cluster, subscribePattern="orders-.*")
    assigned = _read(spark, cluster, assign={"orders": {"broker-a": [1], "broker-b": [0]}})

    assert _bodies(subscribed) == sorted([*_all(), b"second"])
    assert _bodies(matching) == [b"second"]
    assert _bodies(assigned) == sorted([*_all("broker-a", queues=range(1, 2)), *_all("broker-b", queues=range(1))])


def test_reading_starts_and_ends_at_offsets(spark: SparkSession, cluster: Brokers) -> None:
    starts = {"orders": {"broker-a": {"0": 2, "1": -2}, "broker-b": {"0": -1, "1": 9}}}
    ends = {"orders": {"broker-a": {"0": 4, "1": 1}, "broker-b": {"0": -1, "1": -1}}}

    frame = _read(spark, cluster, subscribe="orders", startingOffsets=starts, endingOffsets=ends)

    expected = [b"broker-a 0 2", b"broker-a 0 3", b"broker-a 1 0", b"broker-b 1 9"]
    assert _bodies(frame) == expected
    assert _read(spark, cluster, subscribe="orders", startingOffsets="latest").count() == 0
    assert _read(spark, cluster, subscribe="orders", startingOffsets="earliest", endingOffsets="latest").count() == 40


def test_reading_starts_and_ends_at_times(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("timed", 1, "broker-a")
    cluster.send("timed", b"old")
    reader = cluster.brokers["broker-a"].store.reader
    while int(datetime.now(UTC).timestamp() * 1000) <= reader.store_time("timed", 0, 0) + 1:
        pass
    cluster.send("timed", b"new")
    times = [reader.store_time("timed", 0, offset) for offset in range(2)]
    read = {"subscribe": "timed"}

    assert _bodies(_read(spark, cluster, **read, startingTimestamp=times[0] + 1)) == [b"new"]
    assert _bodies(_read(spark, cluster, **read, endingTimestamp=times[1])) == [b"old"]
    per_queue = {"timed": {"broker-a": {"0": times[1]}}}
    assert _bodies(_read(spark, cluster, **read, startingOffsetsByTimestamp=per_queue)) == [b"new"]
    assert _bodies(_read(spark, cluster, **read, endingOffsetsByTimestamp={"timed": times[0] + 1})) == [b"old"]
    late = {**read, "startingOffsetsByTimestamp": {"timed": times[1] + 60_000}}
    with pytest.raises(PySparkException, match="startingOffsetsByTimestampStrategy to latest"):
        _read(spark, cluster, **late).collect()
    assert _bodies(_read(spark, cluster, **late, startingOffsetsByTimestampStrategy="latest")) == []


def test_reading_starts_at_the_offsets_of_a_group(spark: SparkSession, cluster: Brokers) -> None:
    cluster.admin.groups.create("shop")
    queues = cluster.admin.topics.route("orders").read_queues
    for queue in queues[:3]:
        cluster.admin.offsets.commit("shop", queue, 8)

    rest = _read(spark, cluster, subscribe="orders", startingGroup="shop")
    new = _read(spark, cluster, subscribe="orders", startingGroup="shop", startingOffsets="latest")

    assert (rest.count(), new.count()) == (2 * 3 + 10, 2 * 3)


def test_large_queues_are_split_and_small_ones_packed(spark: SparkSession, cluster: Brokers) -> None:
    few = _read(spark, cluster, subscribe="orders")
    many = _read(spark, cluster, subscribe="orders", minPartitions=8)
    small = _read(spark, cluster, subscribe="orders", maxRecordsPerPartition=7)

    assert [frame.rdd.getNumPartitions() for frame in (few, many, small)] == [1, 8, 6]
    assert _bodies(many) == _bodies(small) == _all()
    counts = small.groupBy(f.spark_partition_id()).count().collect()
    assert max(row["count"] for row in counts) <= 7


def test_tags_and_sql_are_evaluated_by_the_broker(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("tagged", 1, "broker-a")
    for tag, size in (("a", 1), ("b", 2), ("c", 3), ("a", 4)):
        cluster.send("tagged", f"{tag}{size}".encode(), tag=tag, properties={"size": str(size)})

    assert _bodies(_read(spark, cluster, subscribe="tagged", tags="a || c")) == [b"a1", b"a4", b"c3"]
    assert _bodies(_read(spark, cluster, subscribe="tagged", sql="size > 1 AND TAGS = 'a'")) == [b"a4"]


def test_filters_are_pushed_down_if_spark_allows_it(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("pushed", 2, "broker-a")
    for number in range(6):
        cluster.send("pushed", b"%d" % number, queue_id=number % 2, tag="even" if number % 2 == 0 else "odd")
    condition = (
        (f.col("tags") == "even") & (f.col("topic") == "pushed") & (f.col("queueId") == 0) & (f.col("queueOffset") >= 1)
    ) & (f.col("storeTimestamp") > f.lit("2020-01-01").cast("timestamp"))

    off = _read(spark, cluster, subscribe="pushed,orders").where(condition)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        on = _read(spark, cluster, subscribe="pushed,orders", minPartitions=4).where(condition)
        assert (_bodies(off), _bodies(on)) == ([b"2", b"4"], [b"2", b"4"])
        # Only two messages were planned, so there cannot be four partitions.
        assert on.rdd.getNumPartitions() == 2
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_deleted_messages_fail_a_read_unless_data_loss_is_accepted(spark: SparkSession, cluster: Brokers) -> None:
    starts = {"orders": {"broker-a": {"0": 0, "1": 0}, "broker-b": {"0": 0, "1": 0}}}
    queue = cluster.brokers["broker-b"].store.queues.get("orders", 1)
    assert queue is not None
    kept = queue.min_offset
    queue.min_offset = 4
    try:
        with pytest.raises(PySparkException, match=r"offsets 0 to 3 of queue 1 .* failOnDataLoss to false"):
            _read(spark, cluster, subscribe="orders", startingOffsets=starts).collect()
        frame = _read(spark, cluster, subscribe="orders", startingOffsets=starts, failOnDataLoss=False)
        assert frame.count() == 36
    finally:
        queue.min_offset = kept


def test_pull_sizes_follow_the_options(spark: SparkSession, cluster: Brokers) -> None:
    options = {"rocketmq__pullBatchSize": 3, "rocketmq__pullBatchSizeInBytes": 1000, "groupId": "readers"}

    frame = _read(spark, cluster, subscribe="orders", rocketmq__consumerPullTimeoutMillis=5000, **options)

    assert _bodies(frame) == _all()


def test_bodies_become_values_and_invalid_ones_keep_their_row(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("values", 1, "broker-a")
    cluster.send("values", b'{"id": 7}', b"no json")

    rows = _read(spark, cluster, subscribe="values", valueFormat="json", valueSchema="id BIGINT").collect()

    assert [row.value and row.value.id for row in rows] == [7, None]
    assert [row.valueError is None for row in rows] == [True, False]
    assert [bytes(row.body) for row in rows] == [b'{"id": 7}', b"no json"]


def test_brokers_are_read_with_tls_credentials_and_rocketmq_options(spark: SparkSession, tmp_path: Path) -> None:
    authority = trustme.CA()
    trust, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(str(trust))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    files = {
        "tls.server.certPath": str(own),
        "tls.server.keyPath": str(own),
        "tls.server.trustCertPath": str(trust),
        "tls.server.need.client.auth": "require",
    }
    options = {
        "tls": True,
        "tlsTrustCertPath": str(trust),
        "tlsCertPath": str(own),
        "tlsKeyPath": str(own),
        "accessKey": "me",
        "secretKey": "secret",
        "securityToken": "token",
        "retryTimeout": "20s",
        "rocketmq__instanceName": "spark",
        "rocketmq__clientIP": "127.0.0.1",
        "rocketmq__unitName": "unit",
        "rocketmq__connectTimeoutMillis": 9000,
        "rocketmq__mqClientApiTimeout": 9000,
    }
    with Brokers(tmp_path, **files) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"secret")

        assert _bodies(_read(spark, cluster, subscribe="orders", **options)) == [b"secret"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "nothing"}, "topics that do not exist: nothing. Create them"),
        ({"subscribe": "orders", "maxOffsetsPerTrigger": 5}, "maxOffsetsPerTrigger is for streams"),
        ({"subscribe": "orders", "startingOffset": "latest"}, "startingoffset is unknown: is startingOffsets meant"),
    ],
)
def test_invalid_options_are_refused(spark: SparkSession, cluster: Brokers, options: Any, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        _read(spark, cluster, **options).collect()


def test_an_unreachable_server_is_named(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.read.format("rocketmq").options(nameServer="127.0.0.1:1", subscribe="orders", retryTimeout="1ms")

    with pytest.raises(PySparkException, match=r"cannot connect to 127\.0\.0\.1:1"):
        reader.load().collect()
