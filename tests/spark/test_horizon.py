"""Queries that are to end, and wait for what is away until all was read that was to be; topics that are made anew."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kerolox.spark import streams
from kerolox.spark.offsets import Place
from kerolox.spark.pulling import DataLost, Unreadable
from kerolox.spark.streams import LimitedStreamReader
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import bodies_of, handed_back, reading_from

ALL = ReadAllAvailable()
LIMIT = ReadMaxRows(10)


class Clock:
    """Time passes only when it is waited for, and then `meanwhile` happens: the next of these things at each pause."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        self.seconds = 100.0
        self.pauses = 0
        self._meanwhile = list(meanwhile)

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds
        self.pauses += 1
        if self._meanwhile:
            self._meanwhile.pop(0)()


def _ending(cluster: Brokers, topic: str, clock: Clock, **options: Any) -> LimitedStreamReader:
    """Returns the reader of a query that has been told to end with what is there now."""
    reader = _following(cluster, topic, clock, **options)
    reader.prepareForTriggerAvailableNow()
    return reader


def _following(cluster: Brokers, topic: str, clock: Clock, **options: Any) -> LimitedStreamReader:
    reader = streams.reader(reading_from(cluster, topic, retryTimeout="2s", **options))
    assert isinstance(reader, LimitedStreamReader)
    reader.horizon.now, reader.horizon.pause = clock.now, clock.pause
    return reader


def _until_done(reader: LimitedStreamReader, start: dict[str, Any]) -> list[bytes]:
    found = []
    while (end := reader.latestOffset(handed_back(start), LIMIT)) != start:
        found += bodies_of(reader, start, end)
        start = end
    return found


def _short(offset: int) -> dict[str, Any]:
    return Place({MessageQueue("broker-a", 0, "orders"): offset}).to_json()


def test_a_broker_that_leaves_between_two_batches_is_waited_for(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        sent = cluster.send("orders", *numbered(10, b"a")) + cluster.send(
            "orders", *numbered(10, b"b"), broker="broker-b"
        )
        clock = Clock(lambda: None, lambda: cluster.start("broker-b"))
        reader = _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10)
        first = reader.latestOffset({}, LIMIT)
        found = bodies_of(reader, {}, first)

        cluster.stop("broker-b")
        found += _until_done(reader, first)

        assert sorted(found) == sorted(sent)
        assert clock.pauses == 2


def test_a_broker_that_leaves_before_the_first_batch_is_waited_for(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"old", b"new", broker="broker-b")
        clock = Clock(lambda: cluster.start("broker-b"))
        starts = {"orders": {"broker-a": {"0": 0}, "broker-b": {"0": 1}}}
        reader = _ending(cluster, "orders", clock, startingOffsets=starts)

        cluster.stop("broker-b")

        assert _until_done(reader, {}) == [b"new"]


def test_a_broker_that_stays_away_between_two_batches_ends_a_query_with_the_reason(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20), broker="broker-b")
        clock = Clock()
        reader = _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10)
        first = reader.latestOffset({}, LIMIT)
        cluster.stop("broker-b")

        with pytest.raises(DataLost, match=r"nobody has orders broker-b 0, for 2000 ms.* failOnDataLoss .* retryTim"):
            reader.latestOffset(handed_back(first), LIMIT)
        assert clock.seconds == 102


def test_a_name_server_that_does_not_answer_between_two_batches_does_not_end_a_query_as_if_it_were_done(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20))
        clock = Clock()
        # What nobody answers for is not lost, and so this makes no difference.
        readers = [
            _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=is_strict)
            for is_strict in (True, False)
        ]
        first, _ = (reader.latestOffset({}, LIMIT) for reader in readers)
        cluster.stop_name_server()

        for reader in readers:
            with pytest.raises(Unreadable, match=r"nobody answers for orders broker-a 0: .* make retryTimeout longer"):
                reader.latestOffset(handed_back(first), LIMIT)


def test_what_is_away_is_not_waited_for_when_nothing_is_left_of_it(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(3))
        clock = Clock()
        reader = _ending(cluster, "orders", clock, startingOffsets="latest")
        # What comes after it was told to end does not matter to where it begins.
        cluster.send("orders", b"late")
        first = reader.latestOffset({}, ALL)
        cluster.stop("broker-b")
        cluster.stop_name_server()

        assert reader.latestOffset(handed_back(first), ALL) == first
        assert clock.pauses == 0


def test_a_queue_shorter_than_what_was_read_of_it_ends_a_query_that_is_to_end(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"0", b"1")

        reader = _ending(cluster, "orders", Clock())

        with pytest.raises(DataLost, match="orders broker-a 0 ends at offset 2, and offset 5 was to be reached, for"):
            reader.latestOffset(_short(5), ALL)


def test_a_queue_that_grows_again_to_what_was_read_of_it_is_read_on(tmp_path: Path) -> None:
    """A replica has taken over, and catches up."""
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"0", b"1")
        clock = Clock(lambda: None, lambda: cluster.send("orders", b"2", b"3", b"4", b"5"))
        reader = _ending(cluster, "orders", clock)

        assert _until_done(reader, _short(5)) == [b"5"]


def test_where_losses_may_be_a_query_ends_without_what_is_gone_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(40), broker="broker-b")
        sent = cluster.send("orders", *numbered(20, b"a"))
        clock = Clock()
        reader = _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)
        first = reader.latestOffset({}, LIMIT)
        found = bodies_of(reader, {}, first)
        cluster.stop("broker-b")

        with caplog.at_level(logging.WARNING, "kerolox.spark.horizon"):
            found += _until_done(reader, first)

        assert [body for body in found if body.startswith(b"a")] == sent
        assert clock.seconds == 102
        assert [record.message for record in caplog.records if "without" in record.message] == [
            "nobody has orders broker-b 0, for 2000 ms: the query ends without what is gone"
        ]


def test_where_losses_may_be_not_every_run_waits_for_a_broker_that_left_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        sent = cluster.send("orders", *numbered(20))
        gone = MessageQueue("broker-z", 0, "orders")
        start = Place({MessageQueue("broker-a", 0, "orders"): 0, gone: 7}).to_json()
        clock = Clock()
        reader = _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)

        with caplog.at_level(logging.WARNING, "kerolox.spark.horizon"):
            assert _until_done(reader, start) == sent

        assert clock.pauses == 0
        assert [record.message for record in caplog.records] == [
            "orders broker-z 0: not there when the query began, which ends without it"
        ]
        # Should it come back, it is read on.
        assert Place.from_json(reader.latestOffset(start, LIMIT)).offsets[gone] == 7


def test_what_a_broker_lost_of_what_was_to_be_read_is_a_loss_too(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20))
        strict, careless = (
            _ending(cluster, "orders", Clock(), maxOffsetsPerTrigger=10, failOnDataLoss=is_strict)
            for is_strict in (True, False)
        )
        first = strict.latestOffset({}, LIMIT)
        careless.latestOffset({}, LIMIT)
        for reader in (strict, careless):
            assert reader.horizon.target is not None
            # As if ten more had been there when the query began, and not when their broker was up again.
            reader.horizon.target = {queue: end + 10 for queue, end in reader.horizon.target.items()}

        with pytest.raises(DataLost, match="ends at offset 20, and offset 30 was to be reached"):
            strict.latestOffset(handed_back(first), LIMIT)
        assert _until_done(careless, first) == numbered(20)[10:]


def _remake(cluster: Brokers, *bodies: bytes) -> list[bytes]:
    cluster.admin.topics.delete("orders")
    cluster.create("orders", 1)
    return cluster.send("orders", *bodies)


def test_a_topic_made_anew_is_read_from_its_first_message_when_it_was_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(5))
        clock = Clock()
        reader = _following(cluster, "orders", clock, failOnDataLoss=False)
        first = reader.latestOffset({}, ALL)
        new = _remake(cluster, b"new0", b"new1")

        assert reader.latestOffset(handed_back(first), ALL) == first
        clock.seconds += 2
        with caplog.at_level(logging.WARNING, "kerolox.spark.horizon"):
            second = reader.latestOffset(handed_back(first), ALL)
            new += cluster.send("orders", *numbered(6, b"later"))
            third = reader.latestOffset(handed_back(second), ALL)

        assert bodies_of(reader, first, second) == [b"new0", b"new1"]
        assert bodies_of(reader, second, third) == new[2:]
        # The old offset has been passed meanwhile, and the batch is the same when it is run again.
        assert bodies_of(_following(cluster, "orders", clock), first, second) == [b"new0", b"new1"]
        assert reader.latestOffset(handed_back(third), ALL) == third
        assert [record.message for record in caplog.records] == [
            "orders broker-a 0: shorter than what was read of it, and so read from its first message on"
        ]


def test_a_topic_made_anew_and_still_empty_is_read_from_its_first_message_however_much_comes_then(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(5))
        clock = Clock()
        reader = _following(cluster, "orders", clock, failOnDataLoss=False)
        first = reader.latestOffset({}, ALL)
        _remake(cluster)
        reader.latestOffset(handed_back(first), ALL)
        clock.seconds += 2
        second = reader.latestOffset(handed_back(first), ALL)

        new = cluster.send("orders", *numbered(9, b"new"))

        assert bodies_of(reader, second, reader.latestOffset(handed_back(second), ALL)) == new


def test_a_query_that_is_to_end_reads_a_topic_made_anew_from_its_first_message_if_losses_may_be(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        new = cluster.send("orders", *numbered(12))
        clock = Clock()
        reader = _ending(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)

        assert _until_done(reader, _short(50)) == new
        assert clock.seconds == 102
