"""Reading a partition in a task, without Spark."""

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from kerolox.errors import ConfigurationError
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.read.offset_json import QueueRange
from kerolox.spark.read.queue_reader import DataLost
from kerolox.spark.read.task import RangesPartition, read_task, record_filter_of
from kerolox.spark.schema import topic_schema
from tests.spark.clusters import Brokers, numbered


def _options(name_server: str = "a:1", **options: str) -> ReadOptions:
    return read_options({"nameServer": name_server, "subscribe": "orders", **options}, is_stream=False)


def test_several_ranges_become_one_batch_and_each_row_has_its_broker(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as cluster:
        cluster.create("orders", 1)
        for broker in ("broker-a", "broker-b"):
            cluster.send("orders", *numbered(10, broker.encode()), broker=broker)
        addresses = {name: broker.address for name, broker in cluster.brokers.items()} | {"broker-c": "c:1"}
        ranges = [QueueRange("orders", "broker-a", 0, 3, 5), QueueRange("orders", "broker-b", 0, 8, 10)]
        partition = pickle.loads(pickle.dumps(RangesPartition(ranges, addresses)))

        task = pickle.loads(pickle.dumps(read_task(_options(cluster.namesrv_addr), topic_schema())))
        (batch,) = task.batches(partition)

    assert set(partition.addresses) == {"broker-a", "broker-b"}
    assert batch.select(["brokerName", "queueOffset", "body"]).to_pylist() == [
        {"brokerName": "broker-a", "queueOffset": 3, "body": b"broker-a3"},
        {"brokerName": "broker-a", "queueOffset": 4, "body": b"broker-a4"},
        {"brokerName": "broker-b", "queueOffset": 8, "body": b"broker-b8"},
        {"brokerName": "broker-b", "queueOffset": 9, "body": b"broker-b9"},
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create("orders", 2)
        cluster.fill("orders", 1000, queues=2)
        yield cluster


@pytest.fixture
def hole(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the broker skip a record, as it does if the record is damaged or its file was deleted."""
    records = cluster.brokers["broker-a"].store.reader.records
    skipped = cluster.brokers["broker-a"].store.reader.physical_offset("orders", 0, 70)
    gather = records.gather

    def gathering(found: object, entries: list[tuple[int, int]], wants: object = None) -> None:
        gather(found, [it for it in entries if it[0] != skipped], wants)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "gather", gathering)
    monkeypatch.setattr(records, "runs", lambda ranges: None)


def _read(cluster: Brokers, *ranges: tuple[int, int, int], **options: str) -> list[int]:
    """Return the offsets read from ranges `(queue, start, end)`."""
    parts = [QueueRange("orders", "broker-a", queue_id, start, end) for queue_id, start, end in ranges]
    task = read_task(_options(cluster.namesrv_addr, **options), topic_schema())
    partition = RangesPartition(parts, {"broker-a": cluster.brokers["broker-a"].address})
    return [offset for batch in task.batches(partition) for offset in batch.column("queueOffset").to_pylist()]


# A request for at most 256 KiB gets responses as small as those of Apache RocketMQ.
SMALL_RESPONSES = {"rocketmq.pullBatchSizeInBytes": str(256 * 1024)}


@pytest.mark.usefixtures("hole")
@pytest.mark.parametrize("options", [SMALL_RESPONSES, {}, {"tags": "*"}])
def test_a_message_skipped_by_the_broker_is_an_error_unless_data_loss_is_accepted(
    cluster: Brokers, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    lost = "1 of the messages at offsets 60 to 399 of queue 0 of topic orders on broker broker-a are lost"

    with pytest.raises(DataLost, match=f"{lost}.*To continue without them set option failOnDataLoss to false"):
        _read(cluster, (1, 3, 9), (0, 60, 400), **options)
    assert _read(cluster, (0, 0, 70), (0, 71, 100), (1, 70, 71), **options) == [*range(70), *range(71, 100), 70]
    assert caplog.messages == []
    found = _read(cluster, (0, 60, 400), failOnDataLoss="false", **options)
    assert found == [offset for offset in range(60, 400) if offset != 70]
    assert [message.startswith(lost) for message in caplog.messages] == [True]


@pytest.mark.parametrize("options", [SMALL_RESPONSES, {}])
def test_a_known_loss_is_logged_once(
    cluster: Brokers, options: dict[str, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = cluster.brokers["broker-a"].store.queues.get("orders", 0)
    assert queue is not None
    monkeypatch.setattr(queue, "min_offset", 100)

    found = _read(cluster, (0, 20, 300), (0, 490, 510), failOnDataLoss="false", retryTimeout="100ms", **options)

    assert found == [*range(100, 300), *range(490, 500)]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in warnings if "are lost: its broker returned none" in line] == []
    assert any("offsets 20 to 99" in line for line in warnings)


@pytest.mark.usefixtures("hole")
def test_with_a_filter_missing_messages_are_not_an_error(cluster: Brokers) -> None:
    assert _read(cluster, (0, 60, 80), tags="rare") == []


def test_a_partition_that_was_not_planned_is_empty() -> None:
    assert list(read_task(_options(), topic_schema()).batches(InputPartition(None))) == []


def test_tags_are_compared_again_since_brokers_compare_hashes() -> None:
    assert record_filter_of(_options(tags="a|| b ||")).tags == {"a", "b"}
    assert record_filter_of(_options(tags="*")).tags == frozenset()
    assert record_filter_of(_options(sql="a = 1")).tags == frozenset()


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="column 'colour' is unknown"):
        read_task(_options(), topic_schema().add("colour", "string"))
