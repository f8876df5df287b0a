"""Streams: how far batches go, with real brokers; and a few of them with a real Spark."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from kerolox.spark import streams
from kerolox.spark.given import OptionError
from kerolox.spark.offsets import Place
from kerolox.spark.pulling import DataLost
from kerolox.spark.streams import LimitedStreamReader, PlainStreamReader
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import bodies_of, handed_back, reading_from

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b") as cluster:
        yield cluster


def _reader(cluster: Brokers, topic: str, **options: Any) -> LimitedStreamReader:
    reader = streams.reader(reading_from(cluster, topic, **options))
    assert isinstance(reader, LimitedStreamReader)
    return reader


def test_a_stream_goes_on_where_it_was(shared: Brokers) -> None:
    shared.create("goes-on", 1, "broker-a")
    shared.send("goes-on", b"1", b"2")
    reader = _reader(shared, "goes-on")
    first = reader.latestOffset(reader.initialOffset(), ALL)
    shared.send("goes-on", b"3")

    second = reader.latestOffset(handed_back(first), ALL)

    assert bodies_of(reader, {}, first) == [b"1", b"2"]
    assert bodies_of(reader, first, second) == [b"3"]
    assert reader.latestOffset(handed_back(second), ALL) == second
    assert reader.reportLatestOffset() == {"goes-on": {"broker-a": {"0": 3}}}


def test_the_first_batch_is_the_same_when_it_is_run_again_though_latest_is_elsewhere_now(shared: Brokers) -> None:
    shared.create("first", 1, "broker-a")
    shared.send("first", b"old")
    reader = _reader(shared, "first", startingOffsets="latest")
    end = reader.latestOffset({}, ALL)
    shared.send("first", b"new")
    second = reader.latestOffset(handed_back(end), ALL)

    again = _reader(shared, "first", startingOffsets="latest")

    assert bodies_of(again, again.initialOffset(), end) == []
    assert bodies_of(again, end, second) == [b"new"]


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
        second = reader.latestOffset(handed_back(first), ALL)

        assert sorted(bodies_of(reader, first, second)) == [b"2", b"3"]
        # A driver that has just begun reads the same.
        assert sorted(bodies_of(_reader(cluster, "orders"), first, second)) == [b"2", b"3"]


def test_topics_that_come_to_match_a_pattern_are_read_from_their_first_message(shared: Brokers) -> None:
    shared.create("like-1", 1, "broker-a")
    shared.send("like-1", b"old")
    reader = _reader(shared, "", subscribePattern="like-.*", startingOffsets="latest")
    first = reader.latestOffset({}, ALL)
    shared.create("like-2", 1, "broker-b")
    shared.send("like-2", b"new", broker="broker-b")

    second = reader.latestOffset(handed_back(first), ALL)

    assert bodies_of(reader, first, second) == [b"new"]


def test_a_pattern_may_match_nothing_yet(shared: Brokers) -> None:
    reader = _reader(shared, "", subscribePattern="later-.*", startingOffsets="latest")
    first = reader.latestOffset({}, ALL)
    shared.create("later-1", 1, "broker-a")
    shared.send("later-1", b"new")

    second = reader.latestOffset(handed_back(first), ALL)

    assert first != {}
    assert bodies_of(reader, first, second) == [b"new"]


def test_a_limit_is_split_fairly_and_kept(shared: Brokers) -> None:
    shared.create("limited", 2)
    shared.send("limited", *numbered(60))
    shared.send("limited", *numbered(30), queue_id=1)
    shared.send("limited", b"one", broker="broker-b")
    reader = _reader(shared, "limited", maxOffsetsPerTrigger=10)
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)

    end = reader.latestOffset({}, ReadMaxRows(10))

    assert {key: end[key] for key in end if key != "@begin"} == {
        "limited": {"broker-a": {"0": 6, "1": 3}, "broker-b": {"0": 1, "1": 0}}
    }
    assert len(bodies_of(reader, {}, end)) == 10
    # Spark says so where a trigger takes all there is.
    assert len(bodies_of(reader, {}, reader.latestOffset({}, ALL))) == 91


def test_bytes_are_limited_about(shared: Brokers) -> None:
    shared.create("heavy", 2, "broker-a")
    shared.send("heavy", *[bytes(10_000)] * 50)
    shared.send("heavy", *[bytes(100)] * 50, queue_id=1)
    reader = _reader(shared, "heavy", maxBytesPerTrigger=100_000)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(100_000)

    bodies = bodies_of(reader, {}, reader.latestOffset({}, ReadMaxBytes(100_000)))

    assert 50_000 < sum(map(len, bodies)) < 110_000
    assert {len(body) for body in bodies} == {100, 10_000}


def test_little_is_waited_for_until_there_is_more_or_the_delay_is_over(shared: Brokers) -> None:
    now = 100.0
    shared.create("little", 1, "broker-a")
    reader = _reader(shared, "little", minOffsetsPerTrigger=3, maxTriggerDelay="1m")
    reader.horizon.now = lambda: now
    assert reader.getDefaultReadLimit() == ReadMinRows(3)
    first = reader.latestOffset({}, ReadMinRows(3))
    shared.send("little", b"1", b"2")

    assert reader.latestOffset(handed_back(first), ReadMinRows(3)) == first
    now += 61
    late = reader.latestOffset(handed_back(first), ReadMinRows(3))
    assert bodies_of(reader, first, late) == [b"1", b"2"]
    shared.send("little", b"3", b"4", b"5")
    assert bodies_of(reader, late, reader.latestOffset(handed_back(late), ReadMinRows(3))) == [b"3", b"4", b"5"]


def test_a_query_that_is_to_end_takes_what_was_there_when_it_began(shared: Brokers) -> None:
    shared.create("ends", 1, "broker-a")
    shared.send("ends", *numbered(5))
    reader = _reader(shared, "ends", maxOffsetsPerTrigger=3, minOffsetsPerTrigger=3)
    reader.prepareForTriggerAvailableNow()
    shared.send("ends", b"later")
    shared.create("ends", 2, "broker-a")
    shared.send("ends", b"elsewhere", queue_id=1)

    places = [reader.latestOffset({}, ReadMaxRows(3))]
    while (end := reader.latestOffset(handed_back(places[-1]), ReadMaxRows(3))) != places[-1]:
        places.append(end)

    spans = zip([{}, *places[:-1]], places, strict=True)
    assert [bodies_of(reader, start, end) for start, end in spans] == [numbered(5)[:3], numbered(5)[3:]]


def test_a_query_that_is_to_end_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        first = _reader(cluster, "orders").latestOffset({}, ALL)
        cluster.send("orders", b"new", broker="broker-b")
        cluster.stop("broker-b")
        impatient, patient = (_reader(cluster, "orders", retryTimeout=text) for text in ("1ms", "1m"))

        impatient.prepareForTriggerAvailableNow()
        with pytest.raises(DataLost, match="nobody has orders broker-b 0"):
            impatient.latestOffset(handed_back(first), ALL)
        patient.prepareForTriggerAvailableNow()
        back = threading.Timer(0.2, cluster.start, ["broker-b"])
        back.start()
        end = patient.latestOffset(handed_back(first), ALL)
        back.join()

        assert bodies_of(patient, first, end) == [b"new"]


def test_how_far_a_query_has_come_is_told_for_its_group(shared: Brokers) -> None:
    shared.create("told", 1, "broker-a")
    shared.send("told", *numbered(4))
    reader = _reader(shared, "told", groupId="spark-told", maxOffsetsPerTrigger=3)
    first = reader.latestOffset({}, ReadMaxRows(3))
    bodies_of(reader, {}, first)
    reader.latestOffset(handed_back(first), ReadMaxRows(3))

    progress = shared.admin.offsets.progress("spark-told", "told")

    assert progress.lag == 1


def test_what_was_deleted_before_it_was_read_ends_a_query_unless_that_may_be(
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
        reader.latestOffset(handed_back(first), ReadMaxRows(2))

    careless = _reader(shared, "deleted", failOnDataLoss=False)
    rest = careless.latestOffset(handed_back(first), ALL)
    assert bodies_of(careless, first, rest) == numbered(10)[5:]


def test_a_queue_that_vanishes_ends_a_query_when_it_was_waited_for_unless_that_may_be(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"1", broker="broker-b")
        strict, careless = (_reader(cluster, "orders", failOnDataLoss=is_strict) for is_strict in (True, False))
        first = strict.latestOffset({}, ALL)
        cluster.stop("broker-b")
        cluster.send("orders", b"2")
        now = 100.0

        for reader in (strict, careless):
            reader.horizon.now = lambda: now
            second = reader.latestOffset(handed_back(first), ALL)
            assert bodies_of(reader, first, second) == [b"2"]
            assert second["orders"]["broker-b"] == first["orders"]["broker-b"]
        now += 61
        with pytest.raises(DataLost, match="orders broker-b 0: gone"):
            strict.latestOffset(handed_back(second), ALL)
        assert careless.latestOffset(handed_back(second), ALL) == second

        cluster.start("broker-b")
        cluster.send("orders", b"3", broker="broker-b")
        assert bodies_of(strict, second, strict.latestOffset(handed_back(second), ALL)) == [b"3"]


def test_offsets_never_go_backwards(shared: Brokers) -> None:
    shared.create("shorter", 1, "broker-a")
    shared.send("shorter", b"1")
    reader = _reader(shared, "shorter", failOnDataLoss=False)
    first = reader.latestOffset({}, ALL)
    first["shorter"]["broker-a"]["0"] = 9

    assert reader.latestOffset(handed_back(first), ALL) == first


def test_while_no_server_answers_there_is_nothing_new(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        reader = _reader(cluster, "orders", retryTimeout="1ms")
        first = reader.latestOffset({}, ALL)
        cluster.stop_name_server()

        assert reader.latestOffset(handed_back(first), ALL) == first


def test_a_topic_that_does_not_exist_is_named(shared: Brokers) -> None:
    with pytest.raises(OptionError, match="option subscribe names topics that do not exist: nothing"):
        _reader(shared, "nothing").latestOffset({}, ALL)


def test_older_sparks_read_all_there_is_and_go_on_after_a_restart(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "spark_version", lambda: (4, 1))
    shared.create("older", 1, "broker-a")
    shared.send("older", b"1")
    reader = streams.reader(reading_from(shared, "older"))
    assert isinstance(reader, PlainStreamReader)
    first = reader.latestOffset()
    assert bodies_of(reader, reader.initialOffset(), first) == [b"1"]
    assert reader.latestOffset() == first
    shared.send("older", b"2")
    second = reader.latestOffset()
    assert bodies_of(reader, first, second) == [b"2"]

    shared.create("older", 2, "broker-a")
    shared.send("older", b"3", queue_id=1)
    again = streams.reader(reading_from(shared, "older", startingOffsets="latest"))
    assert isinstance(again, PlainStreamReader)
    assert bodies_of(again, second, again.latestOffset()) == [b"3"]


def _older(cluster: Brokers, topic: str, **options: Any) -> PlainStreamReader:
    reader = streams.reader(reading_from(cluster, topic, **options))
    assert isinstance(reader, PlainStreamReader)
    return reader


def test_older_sparks_do_not_read_again_what_a_broker_has_that_was_away(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "spark_version", lambda: (4, 1))
    shared.create("away", 1, "broker-a")
    shared.send("away", b"a0")
    reader = _older(shared, "away", failOnDataLoss=False)
    first = reader.latestOffset()
    # As a checkpoint has it that was written while broker-b had its part of the topic.
    known = Place({MessageQueue("broker-a", 0, "away"): 0, MessageQueue("broker-b", 0, "away"): 2}).to_json()
    assert bodies_of(reader, known, first) == [b"a0"]
    second = reader.latestOffset()

    shared.create("away", 1, "broker-b")
    shared.send("away", b"b0", b"b1", b"b2", broker="broker-b")

    third = reader.latestOffset()
    assert bodies_of(reader, first, second) == []
    assert bodies_of(reader, second, third) == [b"b2"]
    # Whoever has just begun reads the same, and a new queue makes no difference to others.
    assert bodies_of(_older(shared, "away"), second, third) == [b"b2"]
    shared.create("away", 2, "broker-a")
    shared.send("away", b"a1", queue_id=1)
    assert bodies_of(reader, third, reader.latestOffset()) == [b"a1"]


def test_older_sparks_read_nothing_without_a_broker_that_was_there_and_go_on_when_it_is_back(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the checkpoint by then, and run again before another is read."""
    monkeypatch.setattr(streams, "spark_version", lambda: (4, 1))
    shared.create("back", 1, "broker-a")
    shared.send("back", b"a0")
    known = Place({MessageQueue("broker-a", 0, "back"): 0, MessageQueue("broker-b", 0, "back"): 2}).to_json()
    reader = _older(shared, "back")
    first = reader.latestOffset()
    with pytest.raises(DataLost, match=r"back broker-b 0: gone, .* started again when .* failOnDataLoss"):
        reader.partitions(handed_back(known), handed_back(first))
    # Still away: the trigger availableNow asks how far it may go before it runs a batch again, others do after that.
    again = _older(shared, "back")
    again.latestOffset()
    with pytest.raises(DataLost, match="back broker-b 0"):
        again.partitions(handed_back(known), handed_back(first))

    shared.create("back", 1, "broker-b")
    shared.send("back", b"b0", b"b1", b"b2", broker="broker-b")
    ending, following = _older(shared, "back"), _older(shared, "back")
    second = ending.latestOffset()

    assert bodies_of(ending, known, first) == [b"a0"]
    assert bodies_of(ending, first, second) == [b"b2"]
    assert bodies_of(following, known, first) == [b"a0"]
    assert bodies_of(following, known, first) == [b"a0"]
    noted = following.latestOffset()
    assert bodies_of(following, first, noted) == [b"b2"]
    assert following.latestOffset() == noted
    # After another restart it is the same batch, and nothing comes twice.
    last = _older(shared, "back")
    assert bodies_of(last, first, noted) == [b"b2"]
    assert last.latestOffset() == noted
    shared.send("back", b"b3", broker="broker-b")
    assert bodies_of(last, noted, last.latestOffset()) == [b"b3"]


def test_older_sparks_do_not_pass_over_a_queue_that_is_shorter_than_what_was_read_of_it(
    shared: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "spark_version", lambda: (4, 1))
    shared.create("cut", 1, "broker-a")
    shared.send("cut", b"0", b"1")
    reader = _older(shared, "cut")
    first = reader.latestOffset()

    with pytest.raises(DataLost, match="cut broker-a 0: gone, or shorter than what was read of it"):
        reader.partitions(Place({MessageQueue("broker-a", 0, "cut"): 5}).to_json(), handed_back(first))


def test_older_sparks_have_no_limits(shared: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "spark_version", lambda: (4, 1))

    with pytest.raises(OptionError, match=r"maxOffsetsPerTrigger.* need Spark 4\.2 or newer"):
        streams.reader(reading_from(shared, "older", maxOffsetsPerTrigger=5))


# With Spark


def _stream(spark: SparkSession, cluster: Brokers, topic: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv_addr)
    return reader.options(subscribe=topic, **options).load()


def test_spark_reads_what_is_there_in_limited_batches_and_then_what_came_since(
    spark: SparkSession, shared: Brokers, tmp_path: Path
) -> None:
    shared.create("spark", 2)
    old = shared.fill("spark", 30) + shared.send("spark", *numbered(10, b"b"), broker="broker-b")
    batches: list[list[bytes]] = []

    def run() -> list[dict[str, Any]]:
        frame = _stream(
            *(spark, shared, "spark"), startingOffsets="earliest", maxOffsetsPerTrigger=16, groupId="spark-reads"
        )
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = (
            writer.foreachBatch(lambda rows, _: batches.append([bytes(row.body) for row in rows.collect()]))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress.json for progress in query.recentProgress]

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


def test_spark_is_told_of_wrong_options_of_streams(spark: SparkSession, shared: Brokers) -> None:
    query = _stream(spark, shared, "nothing", endingOffsets="latest").writeStream.format("noop")

    with pytest.raises(PySparkException, match="option endingOffsets is for batches"):
        query.start().awaitTermination()


def test_spark_is_done_only_when_a_broker_that_left_between_two_batches_was_read(
    spark: SparkSession, tmp_path: Path
) -> None:
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
