"""Reading ranges of queues from real brokers, with responses of any size and with failures."""

import struct
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kerolox.errors import RemotingError
from kerolox.message.records.record import decode_all
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.read.offset_json import QueueRange
from kerolox.spark.read.queue_reader import Chunk, DataLost, QueueReader, Unreadable
from kerolox.store.queue.lookup import GetResult, PullBounds
from tests.spark.clusters import Brokers

KIB = 1024


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create("orders", 1)
        cluster.fill("orders", 2000, queues=1)
        cluster.create("large", 1)
        cluster.send("large", *[bytes([number]) * 100 * KIB for number in range(20)])
        yield cluster


def _options(cluster: Brokers, **options: str) -> ReadOptions:
    return read_options({"nameServer": cluster.namesrv_addr, "subscribe": "orders", **options}, is_stream=False)


def _part(start: int = 0, end: int = 2000, topic: str = "orders", queue_id: int = 0) -> QueueRange:
    return QueueRange(topic, "broker-a", queue_id, start, end)


def _chunks(options: ReadOptions, *parts: QueueRange) -> list[Chunk]:
    queue_reader = QueueReader(options, ClusterMetadata(options.connection, options.pull_group).address)
    try:
        return [chunk for part in parts for chunk in queue_reader.read(part)]
    finally:
        queue_reader.close()


def _offsets(chunks: list[Chunk]) -> list[int]:
    """Return the offsets of the records within the bounds of their chunk."""
    found = []
    for records, start, end in chunks:
        found += [record.queue_offset for record in decode_all(records) if start <= record.queue_offset < end]
    return found


def test_a_range_is_read_with_one_large_response(cluster: Brokers) -> None:
    chunks = _chunks(_options(cluster), _part(10, 1990))

    assert _offsets(chunks) == list(range(10, 1990))
    assert len(chunks) == 1


def test_responses_respect_the_requested_size(cluster: Brokers) -> None:
    chunks = _chunks(_options(cluster, **{"rocketmq.pullBatchSizeInBytes": str(KIB * KIB)}), _part(0, 20, "large"))

    assert _offsets(chunks) == list(range(20))
    assert [len(chunk.records) <= KIB * KIB for chunk in chunks] == [True] * 2


@pytest.mark.parametrize(("topic", "count"), [("orders", 2000), ("large", 20)])
def test_small_responses_are_read_completely_and_in_order(cluster: Brokers, topic: str, count: int) -> None:
    """A request for at most 256 KiB gets responses as small as those of Apache RocketMQ."""
    chunks = _chunks(_options(cluster, **{"rocketmq.pullBatchSizeInBytes": str(256 * KIB)}), _part(0, count, topic))

    assert _offsets(chunks) == list(range(count))
    assert len(chunks) >= 10


def test_several_pulls_are_in_flight(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ahead = threading.Event()
    reader = cluster.brokers["broker-a"].store.reader
    get = reader.get

    def recording(topic: str, queue_id: int, offset: int, **keywords: object) -> GetResult:
        if offset > 96 + 32:
            is_ahead.set()
        return get(topic, queue_id, offset, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "get", recording)
    options = _options(cluster, **{"rocketmq.pullBatchSizeInBytes": str(256 * KIB)})
    queue_reader = QueueReader(options, ClusterMetadata(options.connection, "").address)
    chunk_iterator = queue_reader.read(_part())
    read = _offsets([next(chunk_iterator) for _ in range(3)])
    # Only three chunks were consumed, but the broker gets pulls for much later ones.
    was_ahead = is_ahead.wait(20)
    assert isinstance(chunk_iterator, Generator)
    chunk_iterator.close()
    queue_reader.close()

    assert read == list(range(96))
    assert was_ahead


def test_holes_in_a_queue_are_skipped_and_nothing_is_duplicated(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task detects the missing message by counting: see test_task."""
    reader = cluster.brokers["broker-a"].store.reader
    first = reader.physical_offset("orders", 0, 70)
    assert first is not None
    records = reader.records
    gather = records.gather

    def gathering(found: object, entries: list[tuple[int, int]], wants: object = None) -> None:
        gather(found, [entry for entry in entries if entry[0] != first], wants)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "gather", gathering)
    monkeypatch.setattr(records, "runs", lambda ranges: None)

    for size in (256 * KIB, 2 * KIB * KIB):
        chunks = _chunks(_options(cluster, **{"rocketmq.pullBatchSizeInBytes": str(size)}), _part(0, 500))
        assert _offsets(chunks) == [offset for offset in range(500) if offset != 70]


def test_tags_are_filtered_by_the_broker(cluster: Brokers) -> None:
    cluster.create("tagged", 1)
    for number in range(40):
        cluster.send("tagged", b"%d" % number, tag="rare" if number % 20 == 7 else "usual")

    chunks = _chunks(_options(cluster, tags="rare"), _part(0, 40, "tagged"))

    assert _offsets(chunks) == [7, 27]


def test_deleted_messages_are_an_error_unless_data_loss_is_accepted(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = cluster.brokers["broker-a"].store.queues.get("orders", 0)
    assert queue is not None
    monkeypatch.setattr(queue, "min_offset", 100)

    with pytest.raises(DataLost, match="offsets 50 to 99 of queue 0 of topic orders on broker broker-a are lost"):
        _chunks(_options(cluster), _part(50, 200))
    with pytest.raises(DataLost, match="offsets 20 to 29 "):
        _chunks(_options(cluster), _part(20, 30))

    assert _offsets(_chunks(_options(cluster, failOnDataLoss="false"), _part(50, 200))) == list(range(100, 200))
    assert _chunks(_options(cluster, failOnDataLoss="false"), _part(20, 30)) == []


def test_a_queue_that_became_shorter_is_waited_for_and_then_lost(cluster: Brokers) -> None:
    patient = {"retryTimeout": "200ms"}

    with pytest.raises(DataLost, match=r"offsets 2000 to 2004 .* the queue ends at offset 2000"):
        _chunks(_options(cluster, **patient), _part(1995, 2005))

    chunks = _chunks(_options(cluster, failOnDataLoss="false", **patient), _part(1995, 2005))
    assert _offsets(chunks) == list(range(1995, 2000))


def test_a_queue_that_no_longer_exists_is_lost(cluster: Brokers) -> None:
    cluster.create("gone", 2)
    cluster.send("gone", b"1", queue_id=1)
    cluster.create("gone", 1)

    address = {"broker-a": cluster.brokers["broker-a"].address}
    part = _part(0, 1, "gone", 1)

    with pytest.raises(Unreadable, match="does the topic have fewer queues now"):
        list(QueueReader(_options(cluster), lambda part: None, address).read(part))
    assert list(QueueReader(_options(cluster, failOnDataLoss="false"), lambda part: None, address).read(part)) == []
    with pytest.raises(DataLost, match="no NameServer lists the queue any more"):
        _chunks(_options(cluster, retryTimeout="100ms"), part)


def test_a_refusal_is_reported_with_the_remedy(tmp_path: Path) -> None:
    with Brokers(tmp_path, autoCreateSubscriptionGroup="false", enablePropertyFilter="false") as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"1")

        with pytest.raises(Unreadable, match="create group readers, or change option groupId"):
            _chunks(_options(cluster, groupId="readers"), _part(0, 1))
        with pytest.raises(Unreadable, match="set enablePropertyFilter=true on the broker"):
            _chunks(_options(cluster, sql="a = 1"), _part(0, 1))


def test_a_broker_that_restarts_elsewhere_is_found_again(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.fill("orders", 400, queues=1)
        options = _options(cluster, **{"rocketmq.pullBatchSizeInBytes": str(256 * KIB)})
        queue_reader = QueueReader(options, ClusterMetadata(options.connection, "").address)
        chunk_iterator = queue_reader.read(_part(0, 400))
        chunks = [next(chunk_iterator)]

        cluster.stop("broker-a")
        back = threading.Timer(0.3, cluster.start, ["broker-a"])
        back.start()
        chunks += chunk_iterator
        back.join()
        queue_reader.close()

    assert _offsets(chunks) == list(range(400))


def test_a_broker_that_stays_down_is_named(tmp_path: Path) -> None:
    with Brokers(tmp_path) as cluster:
        cluster.create("orders", 1)
        cluster.send("orders", b"1")
        options = _options(cluster, retryTimeout="300ms")
        address = {"broker-a": cluster.brokers["broker-a"].address}
        cluster.stop("broker-a")

        def find(part: QueueRange) -> str | None:
            raise RemotingError("unreachable")

        with pytest.raises(Unreadable, match="Is the broker up"):
            list(QueueReader(options, find, address).read(_part(0, 1)))
        # The NameServer no longer lists the broker and its queues.
        with pytest.raises(DataLost, match="no NameServer lists the queue any more"):
            _chunks(options, _part(0, 1))
        assert _chunks(replace(options, fail_on_data_loss=False), _part(0, 1)) == []


def test_an_offset_reset_of_the_group_does_not_affect_reading(cluster: Brokers) -> None:
    broker = cluster.brokers["broker-a"]
    options = _options(cluster, groupId="sent-elsewhere")
    assert len(_offsets(_chunks(options, _part(0, 10)))) == 10
    broker.offsets.resets["orders@sent-elsewhere"] = {0: 500}

    assert _offsets(_chunks(options, _part(0, 10))) == list(range(10))


def test_bulk_responses_contain_whole_records(cluster: Brokers) -> None:
    (chunk,) = _chunks(_options(cluster), _part(0, 2000))
    at = count = 0
    while at < len(chunk.records):
        at += struct.unpack_from(">i", chunk.records, at)[0]
        count += 1

    assert (at, count) == (len(chunk.records), 2000)
    assert PullBounds().in_memory[0] < count
