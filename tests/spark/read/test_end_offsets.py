"""Queries with trigger availableNow that wait for brokers; recreated topics; retired queues."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kerolox.spark.read import stream
from kerolox.spark.read.offset_json import StreamPosition
from kerolox.spark.read.queue_reader import DataLost, Unreadable
from kerolox.spark.read.stream import LimitedStreamReader
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import read_bodies, read_task_for, through_json

ALL = ReadAllAvailable()
LIMIT = ReadMaxRows(10)


class Clock:
    """A clock that advances only by pauses; each pause calls the next function of `meanwhile`."""

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


def _available_now_reader(cluster: Brokers, topic: str, clock: Clock, **options: Any) -> LimitedStreamReader:
    """Return the reader of a query with trigger availableNow."""
    reader = _stream_reader(cluster, topic, clock, **options)
    reader.prepareForTriggerAvailableNow()
    return reader


def _stream_reader(cluster: Brokers, topic: str, clock: Clock, **options: Any) -> LimitedStreamReader:
    reader = stream.reader(read_task_for(cluster, topic, retryTimeout="2s", **options))
    assert isinstance(reader, LimitedStreamReader)
    reader.end_offsets.now, reader.end_offsets.pause = clock.now, clock.pause
    return reader


def _read_until_done(reader: LimitedStreamReader, start: dict[str, Any]) -> list[bytes]:
    found = []
    while (end := reader.latestOffset(through_json(start), LIMIT)) != start:
        found += read_bodies(reader, start, end)
        start = end
    return found


def _position_at(offset: int) -> dict[str, Any]:
    return StreamPosition({MessageQueue("broker-a", 0, "orders"): offset}).to_json()


def test_a_query_waits_for_a_broker_that_stops_between_batches(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        sent = cluster.send("orders", *numbered(10, b"a")) + cluster.send(
            "orders", *numbered(10, b"b"), broker="broker-b"
        )
        clock = Clock(lambda: None, lambda: cluster.start("broker-b"))
        reader = _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10)
        first = reader.latestOffset({}, LIMIT)
        found = read_bodies(reader, {}, first)

        cluster.stop("broker-b")
        found += _read_until_done(reader, first)

        assert sorted(found) == sorted(sent)
        assert clock.pauses == 2


def test_a_query_waits_for_a_broker_that_stops_before_the_first_batch(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"old", b"new", broker="broker-b")
        clock = Clock(lambda: cluster.start("broker-b"))
        starts = {"orders": {"broker-a": {"0": 0}, "broker-b": {"0": 1}}}
        reader = _available_now_reader(cluster, "orders", clock, startingOffsets=starts)

        cluster.stop("broker-b")

        assert _read_until_done(reader, {}) == [b"new"]


def test_a_broker_that_stays_down_between_batches_fails_the_query_with_the_reason(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20), broker="broker-b")
        clock = Clock()
        reader = _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10)
        first = reader.latestOffset({}, LIMIT)
        cluster.stop("broker-b")

        with pytest.raises(DataLost, match=r"no NameServer lists orders broker-b 0, for 2000 ms.* failOnDataLoss"):
            reader.latestOffset(through_json(first), LIMIT)
        assert clock.seconds == 102


def test_an_unreachable_name_server_between_batches_does_not_complete_a_query(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20))
        clock = Clock()
        # An unreachable queue is not a loss, so failOnDataLoss makes no difference.
        readers = [
            _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=is_strict)
            for is_strict in (True, False)
        ]
        first, _ = (reader.latestOffset({}, LIMIT) for reader in readers)
        cluster.stop_name_server()

        for reader in readers:
            with pytest.raises(Unreadable, match=r"no response for orders broker-a 0: .* increase retryTimeout"):
                reader.latestOffset(through_json(first), LIMIT)


def test_a_query_does_not_wait_for_a_broker_with_nothing_left_to_read(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(3))
        clock = Clock()
        reader = _available_now_reader(cluster, "orders", clock, startingOffsets="latest")
        # A message sent after the target was set does not affect the start.
        cluster.send("orders", b"late")
        first = reader.latestOffset({}, ALL)
        cluster.stop("broker-b")
        cluster.stop_name_server()

        assert reader.latestOffset(through_json(first), ALL) == first
        assert clock.pauses == 0


def test_a_queue_shorter_than_the_offset_read_fails_an_available_now_query(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"0", b"1")

        reader = _available_now_reader(cluster, "orders", Clock())

        with pytest.raises(DataLost, match="orders broker-a 0 ends at offset 2, before the wanted offset 5, for"):
            reader.latestOffset(_position_at(5), ALL)


def test_a_queue_that_grows_back_to_the_offset_read_continues(tmp_path: Path) -> None:
    """As if a replica had taken over and catches up."""
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"0", b"1")
        clock = Clock(lambda: None, lambda: cluster.send("orders", b"2", b"3", b"4", b"5"))
        reader = _available_now_reader(cluster, "orders", clock)

        assert _read_until_done(reader, _position_at(5)) == [b"5"]


def test_with_accepted_losses_a_query_ends_without_lost_messages_and_logs_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(40), broker="broker-b")
        sent = cluster.send("orders", *numbered(20, b"a"))
        clock = Clock()
        reader = _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)
        first = reader.latestOffset({}, LIMIT)
        found = read_bodies(reader, {}, first)
        cluster.stop("broker-b")

        with caplog.at_level(logging.WARNING, "kerolox.spark.read.end_offsets"):
            found += _read_until_done(reader, first)

        assert [body for body in found if body.startswith(b"a")] == sent
        assert clock.seconds == 102
        assert [record.message for record in caplog.records if "without" in record.message] == [
            "no NameServer lists orders broker-b 0, for 2000 ms: the query ends without the lost messages"
        ]


def test_with_accepted_losses_later_runs_do_not_wait_for_a_removed_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        sent = cluster.send("orders", *numbered(20))
        gone = MessageQueue("broker-z", 0, "orders")
        start = StreamPosition({MessageQueue("broker-a", 0, "orders"): 0, gone: 7}).to_json()
        clock = Clock()
        reader = _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)

        with caplog.at_level(logging.WARNING, "kerolox.spark.read.end_offsets"):
            assert _read_until_done(reader, start) == sent

        assert clock.pauses == 0
        assert [record.message for record in caplog.records] == [
            "orders broker-z 0 no longer exists and is retired: it was read to offset 7, and its end is not known"
        ]
        # If it comes back, reading continues there.
        assert StreamPosition.from_json(reader.latestOffset(start, LIMIT)).retired == {gone: 7}


def test_messages_lost_before_the_target_are_a_loss(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20))
        strict, lenient = (
            _available_now_reader(cluster, "orders", Clock(), maxOffsetsPerTrigger=10, failOnDataLoss=is_strict)
            for is_strict in (True, False)
        )
        first = strict.latestOffset({}, LIMIT)
        lenient.latestOffset({}, LIMIT)
        for reader in (strict, lenient):
            assert reader.end_offsets.target is not None
            # As if ten more messages had existed at the start of the query, and were lost by a broker restart.
            reader.end_offsets.target = {queue: end + 10 for queue, end in reader.end_offsets.target.items()}

        with pytest.raises(DataLost, match="ends at offset 20, before the wanted offset 30"):
            strict.latestOffset(through_json(first), LIMIT)
        assert _read_until_done(lenient, first) == numbered(20)[10:]


def _recreate_topic(cluster: Brokers, *bodies: bytes) -> list[bytes]:
    cluster.admin.topics.delete("orders")
    cluster.create("orders", 1)
    return cluster.send("orders", *bodies)


def test_a_recreated_topic_is_read_from_its_first_message_after_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(5))
        clock = Clock()
        reader = _stream_reader(cluster, "orders", clock, failOnDataLoss=False)
        first = reader.latestOffset({}, ALL)
        new = _recreate_topic(cluster, b"new0", b"new1")

        assert reader.latestOffset(through_json(first), ALL) == first
        clock.seconds += 2
        with caplog.at_level(logging.WARNING, "kerolox.spark.read.end_offsets"):
            second = reader.latestOffset(through_json(first), ALL)
            new += cluster.send("orders", *numbered(6, b"later"))
            third = reader.latestOffset(through_json(second), ALL)

        assert read_bodies(reader, first, second) == [b"new0", b"new1"]
        assert read_bodies(reader, second, third) == new[2:]
        # The queue is longer than the old offset by now, and the repeated batch is still the same.
        assert read_bodies(_stream_reader(cluster, "orders", clock), first, second) == [b"new0", b"new1"]
        assert reader.latestOffset(through_json(third), ALL) == third
        assert [record.message for record in caplog.records] == [
            "orders broker-a 0: shorter than the offset already read, so it is read from its first message on"
        ]


def test_an_empty_recreated_topic_is_read_from_its_first_message_later(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(5))
        clock = Clock()
        reader = _stream_reader(cluster, "orders", clock, failOnDataLoss=False)
        first = reader.latestOffset({}, ALL)
        _recreate_topic(cluster)
        reader.latestOffset(through_json(first), ALL)
        clock.seconds += 2
        second = reader.latestOffset(through_json(first), ALL)

        new = cluster.send("orders", *numbered(9, b"new"))

        assert read_bodies(reader, second, reader.latestOffset(through_json(second), ALL)) == new


def test_an_available_now_query_reads_a_recreated_topic_from_its_first_message_with_accepted_losses(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        new = cluster.send("orders", *numbered(12))
        clock = Clock()
        reader = _available_now_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10, failOnDataLoss=False)

        assert _read_until_done(reader, _position_at(50)) == new
        assert clock.seconds == 102


# Queues that were read to their end and then removed

B0 = MessageQueue("broker-b", 0, "orders")


def _after_scale_in(cluster: Brokers) -> tuple[dict[str, Any], list[bytes]]:
    """Return the checkpoint of a query that has read everything, and the messages; broker-b is removed."""
    cluster.create("orders", 1)
    sent = cluster.send("orders", *numbered(3, b"a")) + cluster.send("orders", *numbered(5, b"b"), broker="broker-b")
    reader = _stream_reader(cluster, "orders", Clock())
    first = reader.latestOffset({}, ALL)
    assert sorted(read_bodies(reader, {}, first)) == sorted(sent)
    cluster.stop("broker-b")
    return first, sent


def test_a_removed_queue_that_was_read_to_its_end_is_retired_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(5), broker="broker-b")
        clock = Clock()
        reader = _stream_reader(cluster, "orders", clock)
        first = reader.latestOffset({}, ALL)
        cluster.stop("broker-b")
        assert reader.latestOffset(through_json(first), ALL) == first
        clock.seconds += 2

        with caplog.at_level(logging.WARNING, "kerolox.spark.read.end_offsets"):
            second = reader.latestOffset(through_json(first), ALL)

        assert "broker-b" not in second["orders"]
        assert StreamPosition.from_json(second).retired == {B0: 5}
        assert [record.message for record in caplog.records] == [
            "orders broker-b 0 no longer exists and is retired: it was read to offset 5, its last known end"
        ]
        assert read_bodies(reader, first, second) == []
        # The stream continues, also in a new process.
        sent = cluster.send("orders", b"next")
        for following in (reader, _stream_reader(cluster, "orders", clock)):
            assert read_bodies(following, second, following.latestOffset(through_json(second), ALL)) == sent


def test_a_queue_removed_between_queries_is_retired_if_the_checkpoint_read_it_to_its_end(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        start, _ = _after_scale_in(cluster)
        clock = Clock()
        ending, following = _available_now_reader(cluster, "orders", clock), _stream_reader(cluster, "orders", clock)

        following.latestOffset(through_json(start), ALL)
        end = ending.latestOffset(through_json(start), ALL)

        assert clock.seconds == 102
        assert StreamPosition.from_json(end).retired == {B0: 5}
        # The next run does not wait for it again.
        assert _available_now_reader(cluster, "orders", clock).latestOffset(through_json(end), ALL) == end
        assert clock.seconds == 102
        assert StreamPosition.from_json(following.latestOffset(through_json(start), ALL)).retired == {B0: 5}


def test_a_queue_removed_with_unread_messages_is_a_loss_also_for_a_new_process(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", *numbered(20), broker="broker-b")
        clock = Clock()
        limited = _stream_reader(cluster, "orders", clock, maxOffsetsPerTrigger=10)
        start = limited.latestOffset({}, LIMIT)
        assert start["@behind"] == {"orders": {"broker-b": {"0": 20}}}
        cluster.stop("broker-b")

        for reader in (limited, _stream_reader(cluster, "orders", clock)):
            reader.latestOffset(through_json(start), ALL)
            clock.seconds += 2
            with pytest.raises(DataLost, match=r"orders broker-b 0: missing, .* failOnDataLoss"):
                reader.latestOffset(through_json(start), ALL)


def test_a_removed_queue_is_a_loss_if_an_old_checkpoint_does_not_have_its_end(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        start, _ = _after_scale_in(cluster)
        del start["@behind"]

        with pytest.raises(DataLost, match="no NameServer lists orders broker-b 0"):
            _available_now_reader(cluster, "orders", Clock()).latestOffset(start, ALL)


def test_a_retired_queue_that_comes_back_continues_at_its_offset(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        start, _ = _after_scale_in(cluster)
        retired = _available_now_reader(cluster, "orders", Clock()).latestOffset(through_json(start), ALL)
        cluster.start("broker-b")
        new = cluster.send("orders", b"b5", broker="broker-b")

        reader = _stream_reader(cluster, "orders", Clock())
        end = reader.latestOffset(through_json(retired), ALL)

        assert read_bodies(reader, retired, end) == new
        assert StreamPosition.from_json(end).retired == {}
        assert end["orders"]["broker-b"] == {"0": 6}


def test_a_recreated_retired_queue_is_read_from_its_first_message(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        new = cluster.send("orders", *numbered(9, b"new"))
        queue = MessageQueue("broker-a", 0, "orders")
        # Retired at offset 5, before any of the messages was stored.
        retired = StreamPosition(behind={}, retired={queue: 5}, retired_at={queue: 1_000}).to_json()
        reader = _stream_reader(cluster, "orders", Clock())

        assert read_bodies(reader, retired, reader.latestOffset(through_json(retired), ALL)) == new


def test_a_new_queue_with_deleted_messages_fails_a_query_unless_losses_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        start = _stream_reader(cluster, "orders", Clock()).latestOffset({}, ALL)
        cluster.create("orders", 2)
        sent = cluster.send("orders", *numbered(10), queue_id=1)
        queue = cluster.brokers["broker-a"].store.queues.get("orders", 1)
        assert queue is not None
        monkeypatch.setattr(queue, "min_offset", 7)

        for reader in (_stream_reader(cluster, "orders", Clock()), _available_now_reader(cluster, "orders", Clock())):
            with pytest.raises(DataLost, match=r"offsets 0 to 6 of orders broker-a 1 are lost.* failOnDataLoss"):
                reader.latestOffset(through_json(start), ALL)
        lenient = _stream_reader(cluster, "orders", Clock(), failOnDataLoss=False)
        with caplog.at_level(logging.WARNING, "kerolox.spark.read.end_offsets"):
            end = lenient.latestOffset(through_json(start), ALL)

        assert read_bodies(lenient, start, end) == sent[7:]
        assert [record.message for record in caplog.records] == [
            "offsets 0 to 6 of orders broker-a 1 are lost: deleted before they were read"
        ]
