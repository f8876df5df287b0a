"""Streams: the range of each batch, with real brokers; a few tests with a real Spark."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from kerolox.spark.option_parser import OptionError
from kerolox.spark.read import stream
from kerolox.spark.read.offset_json import StreamPosition
from kerolox.spark.read.queue_reader import DataLost
from kerolox.spark.read.stream import LimitedStreamReader, PlainStreamReader
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import read_bodies, read_task_for, through_json

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b") as cluster:
        yield cluster


def _reader(cluster: Brokers, topic: str, **options: Any) -> LimitedStreamReader:
    reader = stream.reader(read_task_for(cluster, topic, **options))
    assert isinstance(reader, LimitedStreamReader)
    return reader


def test_a_stream_continues_at_its_checkpoint(shared: Brokers) -> None:
    shared.create("goes-on", 1, "broker-a")
    shared.send("goes-on", b"1", b"2")
    reader = _reader(shared, "goes-on")
    first = reader.latestOffset(reader.initialOffset(), ALL)
    shared.send("goes-on", b"3")

    second = reader.latestOffset(through_json(first), ALL)

    assert read_bodies(reader, {}, first) == [b"1", b"2"]
    assert read_bodies(reader, first, second) == [b"3"]
    assert reader.latestOffset(through_json(second), ALL) == second
    assert reader.reportLatestOffset() == {"goes-on": {"broker-a": {"0": 3}}}


def test_a_repeated_first_batch_is_the_same_although_latest_has_changed(shared: Brokers) -> None:
    shared.create("first", 1, "broker-a")
    shared.send("first", b"old")
    reader = _reader(shared, "first", startingOffsets="latest")
    end = reader.latestOffset({}, ALL)
    shared.send("first", b"new")
    second = reader.latestOffset(through_json(end), ALL)

    again = _reader(shared, "first", startingOffsets="latest")

    assert read_bodies(again, again.initialOffset(), end) == []
    assert read_bodies(again, end, second) == [b"new"]


def test_new_queues_and_brokers_are_read_from_their_first_message(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"1")
        reader = _reader(cluster, "orders", startingOffsets="latest")
        first = reader.latestOffset({}, ALL)

        cluster.create("orders", 2)
        cluster.send("orders", b"2", queue_id=1)
        cluster.start("broker-b")
        cluster.create("orders", 1, "broker-b")
        cluster.send("orders", b"3", broker="broker-b")
        second = reader.latestOffset(through_json(first), ALL)

        assert sorted(read_bodies(reader, first, second)) == [b"2", b"3"]
        # A new driver reads the same.
        assert sorted(read_bodies(_reader(cluster, "orders"), first, second)) == [b"2", b"3"]


def test_new_topics_that_match_a_pattern_are_read_from_their_first_message(shared: Brokers) -> None:
    shared.create("like-1", 1, "broker-a")
    shared.send("like-1", b"old")
    reader = _reader(shared, "", subscribePattern="like-.*", startingOffsets="latest")
    first = reader.latestOffset({}, ALL)
    shared.create("like-2", 1, "broker-b")
    shared.send("like-2", b"new", broker="broker-b")

    second = reader.latestOffset(through_json(first), ALL)

    assert read_bodies(reader, first, second) == [b"new"]


def test_a_pattern_may_match_nothing_yet(shared: Brokers) -> None:
    reader = _reader(shared, "", subscribePattern="later-.*", startingOffsets="latest")
    first = reader.latestOffset({}, ALL)
    shared.create("later-1", 1, "broker-a")
    shared.send("later-1", b"new")

    second = reader.latestOffset(through_json(first), ALL)

    assert first != {}
    assert read_bodies(reader, first, second) == [b"new"]


def test_a_limit_is_split_fairly_and_respected(shared: Brokers) -> None:
    shared.create("limited", 2)
    shared.send("limited", *numbered(60))
    shared.send("limited", *numbered(30), queue_id=1)
    shared.send("limited", b"one", broker="broker-b")
    reader = _reader(shared, "limited", maxOffsetsPerTrigger=10)
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)

    end = reader.latestOffset({}, ReadMaxRows(10))

    assert end["limited"] == {"broker-a": {"0": 6, "1": 3}, "broker-b": {"0": 1, "1": 0}}
    assert end["@behind"] == {"limited": {"broker-a": {"0": 60, "1": 30}}}
    assert len(read_bodies(reader, {}, end)) == 10
    # Spark passes ReadAllAvailable for triggers without a limit.
    assert len(read_bodies(reader, {}, reader.latestOffset({}, ALL))) == 91


def test_bytes_are_limited_approximately(shared: Brokers) -> None:
    shared.create("heavy", 2, "broker-a")
    shared.send("heavy", *[bytes(10_000)] * 50)
    shared.send("heavy", *[bytes(100)] * 50, queue_id=1)
    reader = _reader(shared, "heavy", maxBytesPerTrigger=100_000)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(100_000)

    bodies = read_bodies(reader, {}, reader.latestOffset({}, ReadMaxBytes(100_000)))

    assert 50_000 < sum(map(len, bodies)) < 110_000
    assert {len(body) for body in bodies} == {100, 10_000}


def test_a_batch_waits_for_the_minimum_or_the_maximum_delay(shared: Brokers) -> None:
    now = 100.0
    shared.create("little", 1, "broker-a")
    reader = _reader(shared, "little", minOffsetsPerTrigger=3, maxTriggerDelay="1m")
    reader.end_offsets.now = lambda: now
    assert reader.getDefaultReadLimit() == ReadMinRows(3)
    first = reader.latestOffset({}, ReadMinRows(3))
    shared.send("little", b"1", b"2")

    assert reader.latestOffset(through_json(first), ReadMinRows(3)) == first
    now += 61
    late = reader.latestOffset(through_json(first), ReadMinRows(3))
    assert read_bodies(reader, first, late) == [b"1", b"2"]
    shared.send("little", b"3", b"4", b"5")
    assert read_bodies(reader, late, reader.latestOffset(through_json(late), ReadMinRows(3))) == [b"3", b"4", b"5"]


def test_an_available_now_query_reads_what_exists_at_its_start(shared: Brokers) -> None:
    shared.create("ends", 1, "broker-a")
    shared.send("ends", *numbered(5))
    reader = _reader(shared, "ends", maxOffsetsPerTrigger=3, minOffsetsPerTrigger=3)
    reader.prepareForTriggerAvailableNow()
    shared.send("ends", b"later")
    shared.create("ends", 2, "broker-a")
    shared.send("ends", b"elsewhere", queue_id=1)

    positions = [reader.latestOffset({}, ReadMaxRows(3))]
    while (end := reader.latestOffset(through_json(positions[-1]), ReadMaxRows(3))) != positions[-1]:
        positions.append(end)

    spans = zip([{}, *positions[:-1]], positions, strict=True)
    assert [read_bodies(reader, start, end) for start, end in spans] == [numbered(5)[:3], numbered(5)[3:]]


def test_an_available_now_query_waits_for_a_broker_that_is_down(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        first = _reader(cluster, "orders").latestOffset({}, ALL)
        cluster.send("orders", b"new", broker="broker-b")
        cluster.stop("broker-b")
        impatient, patient = (_reader(cluster, "orders", retryTimeout=text) for text in ("1ms", "1m"))

        impatient.prepareForTriggerAvailableNow()
        # According to the checkpoint the queue was read to its end.
        assert "broker-b" not in impatient.latestOffset(through_json(first), ALL)["orders"]
        patient.prepareForTriggerAvailableNow()
        back = threading.Timer(0.2, cluster.start, ["broker-b"])
        back.start()
        end = patient.latestOffset(through_json(first), ALL)
        back.join()

        assert read_bodies(patient, first, end) == [b"new"]


def test_progress_is_committed_for_the_group(shared: Brokers) -> None:
    shared.create("committed", 1, "broker-a")
    shared.send("committed", *numbered(4))
    reader = _reader(shared, "committed", groupId="spark-committed", maxOffsetsPerTrigger=3)
    first = reader.latestOffset({}, ReadMaxRows(3))
    read_bodies(reader, {}, first)
    reader.latestOffset(through_json(first), ReadMaxRows(3))

    progress = shared.admin.offsets.progress("spark-committed", "committed")

    assert progress.lag == 1


def test_messages_deleted_before_they_were_read_fail_a_query_unless_losses_are_accepted(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.create("deleted", 1, "broker-a")
    shared.send("deleted", *numbered(10))
    reader = _reader(shared, "deleted", maxOffsetsPerTrigger=2)
    first = reader.latestOffset({}, ReadMaxRows(2))
    queue = shared.brokers["broker-a"].store.queues.get("deleted", 0)
    assert queue is not None
    monkeypatch.setattr(queue, "min_offset", 5)

    with pytest.raises(DataLost, match=r"offsets 2 to 4 of deleted broker-a 0 .* failOnDataLoss"):
        reader.latestOffset(through_json(first), ReadMaxRows(2))

    lenient = _reader(shared, "deleted", failOnDataLoss=False)
    rest = lenient.latestOffset(through_json(first), ALL)
    assert read_bodies(lenient, first, rest) == numbered(10)[5:]


def test_a_queue_that_vanishes_with_unread_messages_fails_a_query_after_the_retry_timeout(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(3), broker="broker-b")
        limit = ReadMaxRows(1)
        strict, lenient = (
            _reader(cluster, "orders", failOnDataLoss=is_strict, maxOffsetsPerTrigger=1) for is_strict in (True, False)
        )
        first, _ = (reader.latestOffset({}, limit) for reader in (strict, lenient))
        cluster.stop("broker-b")
        cluster.send("orders", b"a")
        now = 100.0
        second = first

        for reader in (strict, lenient):
            reader.end_offsets.now = lambda: now
            second = reader.latestOffset(through_json(first), ALL)
            assert read_bodies(reader, first, second) == [b"a"]
            assert second["orders"]["broker-b"] == first["orders"]["broker-b"]
        now += 61
        with pytest.raises(DataLost, match="orders broker-b 0: missing"):
            strict.latestOffset(through_json(second), ALL)
        retired = lenient.latestOffset(through_json(second), ALL)
        assert "broker-b" not in retired["orders"]

        cluster.start("broker-b")
        for reader, start in ((strict, second), (lenient, retired)):
            assert read_bodies(reader, start, reader.latestOffset(through_json(start), ALL)) == numbered(3)[1:]


def test_offsets_never_go_backwards(shared: Brokers) -> None:
    shared.create("shorter", 1, "broker-a")
    shared.send("shorter", b"1")
    reader = _reader(shared, "shorter", failOnDataLoss=False)
    first = reader.latestOffset({}, ALL)
    first["shorter"]["broker-a"]["0"] = 9

    assert reader.latestOffset(through_json(first), ALL) == first


def test_while_no_server_responds_there_is_nothing_new(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        reader = _reader(cluster, "orders", retryTimeout="1ms")
        first = reader.latestOffset({}, ALL)
        cluster.stop_name_server()

        assert reader.latestOffset(through_json(first), ALL) == first


def test_a_missing_topic_is_named(shared: Brokers) -> None:
    with pytest.raises(OptionError, match="option subscribe names topics that do not exist: nothing"):
        _reader(shared, "nothing").latestOffset({}, ALL)


def test_older_sparks_read_everything_and_continue_after_a_restart(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    shared.create("older", 1, "broker-a")
    shared.send("older", b"1")
    reader = stream.reader(read_task_for(shared, "older"))
    assert isinstance(reader, PlainStreamReader)
    first = reader.latestOffset()
    assert read_bodies(reader, reader.initialOffset(), first) == [b"1"]
    assert reader.latestOffset() == first
    shared.send("older", b"2")
    second = reader.latestOffset()
    assert read_bodies(reader, first, second) == [b"2"]

    shared.create("older", 2, "broker-a")
    shared.send("older", b"3", queue_id=1)
    again = stream.reader(read_task_for(shared, "older", startingOffsets="latest"))
    assert isinstance(again, PlainStreamReader)
    assert read_bodies(again, second, again.latestOffset()) == [b"3"]


def _older_spark_reader(cluster: Brokers, topic: str, **options: Any) -> PlainStreamReader:
    reader = stream.reader(read_task_for(cluster, topic, **options))
    assert isinstance(reader, PlainStreamReader)
    return reader


def test_older_sparks_do_not_read_again_after_a_broker_was_down(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    shared.create("away", 1, "broker-a")
    shared.send("away", b"a0")
    reader = _older_spark_reader(shared, "away", failOnDataLoss=False)
    first = reader.latestOffset()
    # A checkpoint from the time when broker-b had a part of the topic.
    known = StreamPosition({MessageQueue("broker-a", 0, "away"): 0, MessageQueue("broker-b", 0, "away"): 2}).to_json()
    assert read_bodies(reader, known, first) == [b"a0"]
    second = reader.latestOffset()

    shared.create("away", 1, "broker-b")
    shared.send("away", b"b0", b"b1", b"b2", broker="broker-b")

    third = reader.latestOffset()
    assert read_bodies(reader, first, second) == []
    assert read_bodies(reader, second, third) == [b"b2"]
    # A new driver reads the same, and a new queue does not affect the others.
    assert read_bodies(_older_spark_reader(shared, "away"), second, third) == [b"b2"]
    shared.create("away", 2, "broker-a")
    shared.send("away", b"a1", queue_id=1)
    assert read_bodies(reader, third, reader.latestOffset()) == [b"a1"]


def test_older_sparks_read_nothing_while_a_known_broker_is_down_and_continue_later(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed batch is in the checkpoint, so Spark runs it again before the next one."""
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    shared.create("back", 1, "broker-a")
    shared.send("back", b"a0")
    known = StreamPosition({MessageQueue("broker-a", 0, "back"): 0, MessageQueue("broker-b", 0, "back"): 2}).to_json()
    reader = _older_spark_reader(shared, "back")
    first = reader.latestOffset()
    with pytest.raises(DataLost, match=r"back broker-b 0: missing, .* restart the query when .* failOnDataLoss"):
        reader.partitions(through_json(known), through_json(first))
    # Still down: with trigger availableNow Spark calls latestOffset before it repeats a batch, else after it.
    again = _older_spark_reader(shared, "back")
    again.latestOffset()
    with pytest.raises(DataLost, match="back broker-b 0"):
        again.partitions(through_json(known), through_json(first))

    shared.create("back", 1, "broker-b")
    shared.send("back", b"b0", b"b1", b"b2", broker="broker-b")
    ending, following = _older_spark_reader(shared, "back"), _older_spark_reader(shared, "back")
    second = ending.latestOffset()

    assert read_bodies(ending, known, first) == [b"a0"]
    assert read_bodies(ending, first, second) == [b"b2"]
    assert read_bodies(following, known, first) == [b"a0"]
    assert read_bodies(following, known, first) == [b"a0"]
    saved = following.latestOffset()
    assert read_bodies(following, first, saved) == [b"b2"]
    assert following.latestOffset() == saved
    # After another restart the batch is the same, and nothing is duplicated.
    last = _older_spark_reader(shared, "back")
    assert read_bodies(last, first, saved) == [b"b2"]
    assert last.latestOffset() == saved
    shared.send("back", b"b3", broker="broker-b")
    assert read_bodies(last, saved, last.latestOffset()) == [b"b3"]


def test_older_sparks_report_a_queue_shorter_than_the_offset_read(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    shared.create("cut", 1, "broker-a")
    shared.send("cut", b"0", b"1")
    reader = _older_spark_reader(shared, "cut")
    first = reader.latestOffset()

    with pytest.raises(DataLost, match="cut broker-a 0: missing, or shorter than the offset already read"):
        reader.partitions(StreamPosition({MessageQueue("broker-a", 0, "cut"): 5}).to_json(), through_json(first))


def test_older_sparks_keep_a_retired_queue_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    now = 100.0
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"b0", b"b1", broker="broker-b")
        reader = _older_spark_reader(cluster, "orders")
        reader.end_offsets.now = lambda: now
        first = reader.latestOffset()
        assert read_bodies(reader, {}, first) == [b"b0", b"b1"]
        cluster.stop("broker-b")
        assert reader.latestOffset() == first
        now += 61
        second = reader.latestOffset()
        assert "broker-b" not in second["orders"]
        assert read_bodies(reader, first, second) == []

        again = _older_spark_reader(cluster, "orders")
        third = again.latestOffset()
        assert read_bodies(again, second, third) == []
        fourth = again.latestOffset()
        assert fourth["@retired"] == second["@retired"]
        cluster.start("broker-b")
        cluster.send("orders", b"b2", broker="broker-b")

        assert read_bodies(again, fourth, again.latestOffset()) == [b"b2"]
        # So does a process that starts when the queue exists again.
        last = _older_spark_reader(cluster, "orders")
        assert read_bodies(last, fourth, last.latestOffset()) == [b"b2"]


def test_older_sparks_report_a_new_queue_with_deleted_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        start = _older_spark_reader(cluster, "orders").latestOffset()
        cluster.create("orders", 2)
        cluster.send("orders", *numbered(10), queue_id=1)
        queue = cluster.brokers["broker-a"].store.queues.get("orders", 1)
        assert queue is not None
        monkeypatch.setattr(queue, "min_offset", 7)
        reader = _older_spark_reader(cluster, "orders")
        end = reader.latestOffset()

        with pytest.raises(DataLost, match=r"offsets 0 to 6 of orders broker-a 1 are lost"):
            reader.partitions(through_json(start), through_json(end))


def test_older_sparks_refuse_limits(shared: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "spark_version", lambda: (4, 1))

    with pytest.raises(OptionError, match=r"maxOffsetsPerTrigger.* need Spark 4\.2 or newer"):
        stream.reader(read_task_for(shared, "older", maxOffsetsPerTrigger=5))


# With Spark


def _stream(spark: SparkSession, cluster: Brokers, topic: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv_addr)
    return reader.options(subscribe=topic, **options).load()


def test_spark_reads_limited_batches_and_later_the_new_messages(
    spark: SparkSession, shared: Brokers, tmp_path: Path
) -> None:
    shared.create("spark", 2)
    old = shared.fill("spark", 30) + shared.send("spark", *numbered(10, b"b"), broker="broker-b")
    batches: list[list[bytes]] = []

    def run() -> None:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 16, "groupId": "spark-reads"}
        frame = _stream(spark, shared, "spark", **options)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = (
            writer.foreachBatch(lambda rows, _: batches.append([bytes(row.body) for row in rows.collect()]))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert [len(batch) for batch in batches] == [16, 16, 8]
    assert sorted(body for batch in batches for body in batch) == sorted(old)
    batches.clear()
    shared.create("spark", 3)
    new = shared.send("spark", b"new queue", queue_id=2)

    run()

    assert [body for batch in batches for body in batch] == new
    assert shared.admin.offsets.progress("spark-reads", "spark").lag == 0


def test_spark_follows_a_topic_until_it_is_stopped(spark: SparkSession, shared: Brokers, tmp_path: Path) -> None:
    shared.create("followed", 1, "broker-a")
    shared.send("followed", b"old")
    frame = _stream(spark, shared, "followed", startingOffsets="latest").selectExpr("CAST(body AS STRING) AS body")
    query = frame.writeStream.format("memory").queryName("followed").trigger(processingTime="100 milliseconds").start()
    try:
        while not query.lastProgress:
            query.processAllAvailable()
        shared.send("followed", b"new")
        query.processAllAvailable()

        assert [row.body for row in spark.table("followed").collect()] == ["new"]
        (source,) = query.lastProgress.sources
        assert json.loads(source.endOffset)["followed"] == {"broker-a": {"0": 2}}
    finally:
        query.stop()


def test_invalid_options_of_streams_are_reported_by_spark(spark: SparkSession, shared: Brokers) -> None:
    query = _stream(spark, shared, "nothing", endingOffsets="latest").writeStream.format("noop")

    with pytest.raises(PySparkException, match="option endingOffsets is for batches"):
        query.start().awaitTermination()


def test_spark_ends_a_query_only_after_a_stopped_broker_was_read(spark: SparkSession, tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        sent = cluster.fill("orders", 10, 1) + cluster.send("orders", *numbered(10, b"b"), broker="broker-b")
        found: list[bytes] = []
        back = threading.Timer(2, cluster.start, ["broker-b"])

        def take(rows: DataFrame, number: int) -> None:
            found.extend(bytes(row.body) for row in rows.collect())
            if number == 0:
                cluster.stop("broker-b")
                back.start()

        frame = _stream(spark, cluster, "orders", startingOffsets="earliest", maxOffsetsPerTrigger=10)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(take)
        writer.trigger(availableNow=True).start().awaitTermination()
        back.join()

        assert sorted(found) == sorted(sent)
