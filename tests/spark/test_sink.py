"""Writing tables to topics with Spark, in batches and as streams."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from kerolox.client.producer.settings import ProducerSettings
from kerolox.codes import CURRENT_VERSION
from kerolox.spark import register
from kerolox.spark.option_parser import OptionError
from kerolox.spark.repeats import drop_repeats
from kerolox.spark.sink import BatchWriter, PartitionCommit, StreamWriter, TableWrite, WritableSource, WriteOptions
from kerolox.spark.source import RocketMQ
from kerolox.spark.write import writer
from kerolox.spark.write.writer import DeliveryTimeUnsupported
from tests.spark.clusters import Brokers
from tests.spark.write.test_writer import stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def registered(request: pytest.FixtureRequest) -> None:
    if "spark" in request.fixturenames:
        register(request.getfixturevalue("spark"))


def write(frame: DataFrame, cluster: Brokers, **options: str) -> None:
    frame.write.format("rocketmq").options(nameServer=cluster.namesrv_addr, **options).mode("append").save()


def read(spark: SparkSession, cluster: Brokers, topic: str, **options: Any) -> DataFrame:
    options = {"nameServer": cluster.namesrv_addr, "subscribe": topic, **options}
    return spark.read.format("rocketmq").options(**options).load()


def test_a_delivery_time_column_is_refused_at_planning_if_brokers_lack_timers(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("timed")
    schema = StructType([StructField("body", BinaryType()), StructField("deliverAt", TimestampType())])
    source = RocketMQ({"nameServer": cluster.namesrv_addr, "topic": "timed"})
    unknown = RocketMQ({"nameServer": cluster.namesrv_addr, "topic": "nowhere"})

    assert isinstance(source.writer(schema, False), BatchWriter)
    # Tasks retry topics that do not exist yet.
    assert isinstance(unknown.streamWriter(schema, False), StreamWriter)
    monkeypatch.setattr(writer, "DELIVERY_TIME_SINCE", CURRENT_VERSION + 1)
    for plan in (source.writer, source.streamWriter):
        with pytest.raises(DeliveryTimeUnsupported, match=r"column deliverAt needs brokers of 5\.0 or newer"):
            plan(schema, False)


def test_written_rows_can_be_read(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("written")
    frame = spark.range(500).selectExpr(
        "'written' AS topic",
        "CAST(id AS STRING) AS body",
        "array(concat('k', id), 'all') AS keys",
        "'new' AS tags",
        "map('parity', CAST(id % 2 AS STRING)) AS properties",
        "concat('s', id % 3) AS shardingKey",
    )

    write(frame, cluster, batchBytes="4000")

    rows = read(spark, cluster, "written", includeProperties=True, valueFormat="string").collect()
    assert sorted(int(row.value) for row in rows) == list(range(500))
    for row in rows:
        assert (row["keys"], row.tags, row.properties["parity"]) == (
            f"k{row.value} all",
            "new",
            str(int(row.value) % 2),
        )
        assert row.properties["__SHARDINGKEY"] == f"s{int(row.value) % 3}"


def test_a_repeated_job_sends_the_same_keys_and_repeats_can_be_dropped(spark: SparkSession, cluster: Brokers) -> None:
    cluster.create("again")
    frame = spark.range(50).selectExpr("CAST(id % 10 AS STRING) AS value").coalesce(1)
    for _ in range(2):
        write(frame, cluster, topic="again", writeId="nightly-2026-01-31")
    write(frame.limit(3), cluster, topic="again")

    messages = read(spark, cluster, "again")

    assert messages.count() == 103
    assert drop_repeats(messages).count() == 53


def test_a_repeated_batch_of_a_stream_sends_the_same_keys(
    spark: SparkSession, cluster: Brokers, tmp_path: Path
) -> None:
    """As after a crash between the last message and the commit of the batch."""
    cluster.create("streamed")
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    spark.range(40).selectExpr("CAST(id AS STRING) AS value").coalesce(1).write.text(str(source))

    def run() -> None:
        stream = spark.readStream.text(str(source)).writeStream.format("rocketmq")
        options = {"nameServer": cluster.namesrv_addr, "topic": "streamed", "checkpointLocation": str(checkpoint)}
        stream.options(**options).trigger(availableNow=True).start().awaitTermination()

    run()
    for note in (checkpoint / "commits").iterdir():
        note.unlink()
    run()

    records = stored(cluster, "streamed")
    assert sorted(int(record.body) for record in records) == sorted([*range(40), *range(40)])
    assert len({record.message_id for record in records}) == 40
    assert drop_repeats(read(spark, cluster, "streamed")).count() == 40


def test_a_repeated_for_each_batch_sends_the_same_keys(spark: SparkSession, cluster: Brokers, tmp_path: Path) -> None:
    """Two batches with equal rows, of which the last one is repeated."""
    cluster.create("each")
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    options = {"checkpointLocation": str(checkpoint)}

    def run() -> None:
        stream = spark.readStream.text(str(source)).writeStream.options(**options)
        stream = stream.foreachBatch(lambda frame, number: write(frame, cluster, topic="each"))
        stream.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        spark.range(20).selectExpr("CAST(id AS STRING) AS value").coalesce(1).write.mode("append").text(str(source))
        run()
    for note in (checkpoint / "commits").glob("*1*"):
        note.unlink()
    run()

    records = stored(cluster, "each")
    assert sorted(int(record.body) for record in records) == sorted([*range(20)] * 3)
    assert len({record.message_id for record in records}) == 40


def test_repeats_are_dropped_from_a_stream(spark: SparkSession, cluster: Brokers, tmp_path: Path) -> None:
    cluster.create("twice")
    frame = spark.range(20).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
    for _ in range(2):
        write(frame, cluster, topic="twice", writeId="the same")
    options = {"nameServer": cluster.namesrv_addr, "subscribe": "twice", "startingOffsets": "earliest"}

    once = drop_repeats(spark.readStream.format("rocketmq").options(**options).load(), within="10 minutes")
    stream = once.writeStream.format("memory").queryName("once").option("checkpointLocation", str(tmp_path))
    stream.trigger(availableNow=True).start().awaitTermination()

    assert sorted(int(row.body) for row in spark.table("once").collect()) == list(range(20))


def test_a_failure_names_the_topic_and_the_reason(spark: SparkSession, cluster: Brokers) -> None:
    frame = spark.range(3).selectExpr("'nowhere' AS topic", "CAST(id AS STRING) AS body")

    with pytest.raises(PySparkException) as raised:
        write(frame, cluster, retryTimeout="1s")

    assert "could not be written to topic 'nowhere'" in str(raised.value)
    assert "does not exist" in str(raised.value)


def test_the_unique_keys_of_a_batch_write_are_new_each_time(cluster: Brokers) -> None:
    options = {"nameserver": cluster.namesrv_addr, "topic": "t"}

    first, second = (sink(options).writer(SCHEMA, overwrite=False) for _ in range(2))
    named = sink({**options, "writeid": "x"}).writer(SCHEMA, overwrite=False)

    assert isinstance(first, BatchWriter)
    assert isinstance(second, BatchWriter)
    assert isinstance(named, BatchWriter)
    assert first.write_id != second.write_id
    assert named.write_id == "x"


def test_a_stream_is_written_with_arrow_if_spark_supports_it(cluster: Brokers) -> None:
    writer = sink({"nameserver": cluster.namesrv_addr, "topic": "t"}).streamWriter(SCHEMA, overwrite=False)

    assert isinstance(writer, StreamWriter)


def test_producer_options_are_passed_through() -> None:
    given = {
        "nameServer": "a:1",
        "rocketmq.sendMsgTimeout": "2000",
        "rocketmq.retryTimesWhenSendFailed": "0",
        "rocketmq.retryAnotherBrokerWhenNotStoreOK": "true",
        "rocketmq.createTopicKey": "template",
        "rocketmq.defaultTopicQueueNums": "16",
        "rocketmq.sendLatencyFaultEnable": "true",
        "rocketmq.unitMode": "true",
        "rocketmq.vipChannelEnabled": "true",
    }

    options = pickle.loads(pickle.dumps(WriteOptions.of(given, is_stream=False)))

    assert options.send.send_seconds == 2.0
    assert options.send.settings == ProducerSettings(
        retry_times_when_send_failed=0,
        retry_another_broker_when_not_store_ok=True,
        create_topic_key="template",
        default_topic_queue_nums=16,
        send_latency_fault_enable=True,
    )
    client = options.connection.client_options()
    assert (client.unit_mode, client.vip_channel_enabled) == (True, True)
    assert WriteOptions.of({"nameServer": "a:1"}, is_stream=False).send.settings == ProducerSettings()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("rocketmq.compressMsgBodyOverHowmuch", "has no effect here: rows are sent in batches"),
        ("rocketmq.maxMessageSize", "the broker's limit applies"),
        ("rocketmq.retryTimesWhenSendFail", "is unknown: is rocketmq.retryTimesWhenSendFailed meant"),
        ("rocketmq.createTopicKey", "rocketmq.createTopicKey: "),
    ],
)
def test_unsupported_producer_options_are_refused(option: str, message: str) -> None:
    with pytest.raises(OptionError, match=f"(?i)option {option}.*{message}|option {message}"):
        WriteOptions.of({"nameServer": "a:1", option: "7 !"}, is_stream=False)


def test_rows_are_written_if_spark_passes_rows(cluster: Brokers) -> None:
    cluster.create("rows")
    options = WriteOptions.of({"nameServer": cluster.namesrv_addr, "topic": "rows"}, is_stream=True)
    write = TableWrite(options, SCHEMA)
    rows = iter([Row(topic="ignored", body=b"%d" % number) for number in range(7)])

    written = write.partition(write.as_batches(rows, 3), "query/0/0")

    assert written == PartitionCommit({"rows": 7})
    assert sorted(record.body for record in stored(cluster, "rows")) == [b"%d" % number for number in range(7)]


def test_abort_logs_the_messages_of_complete_partitions(cluster: Brokers, caplog: pytest.LogCaptureFixture) -> None:
    options = {"nameserver": cluster.namesrv_addr, "topic": "t"}

    sink(options).writer(SCHEMA, overwrite=False).abort([None, PartitionCommit({"t": 5})])
    sink(options).streamWriter(SCHEMA, overwrite=False).abort([None], 3)

    assert "aborted; 5 messages" in caplog.text
    assert "aborted; 0 messages" in caplog.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nameserver": ""}, "option nameServer is empty"),
        ({"path": "orders"}, "option path is not supported: name the topic with option topic"),
        ({"topic": "no topic"}, "option topic: "),
        ({"topic": "group of orders"}, "option topic: "),
        ({"producergroup": "no group"}, "option producerGroup: "),
        ({"batchbytes": "5000000"}, "option batchBytes is 5000000: the limit of brokers is 4194304"),
        ({"subscribe": "orders"}, "option subscribe is unknown"),
        ({"batchesinflight": "0"}, "option batchesInFlight is '0'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        sink({"nameserver": "127.0.0.1:1", "topic": "t", **options}).writer(SCHEMA, overwrite=False)

    assert reason in str(raised.value)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match=r"cannot be overwritten: use mode\('append'\)"):
        sink({"nameserver": "127.0.0.1:1", "topic": "t"}).writer(SCHEMA, overwrite=True)


def test_write_id_is_refused_for_streams() -> None:
    with pytest.raises(OptionError, match="option writeId is for batch writes"):
        sink({"nameserver": "127.0.0.1:1", "topic": "t", "writeid": "x"}).streamWriter(SCHEMA, overwrite=False)


def sink(options: dict[str, str]) -> WritableSource:
    made = WritableSource()
    made.options = options
    return made
