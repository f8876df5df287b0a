"""Reads topics of Apache's brokers as tables: planning of the driver and reading of the tasks, batches and streams."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from kerolox.admin.sync import AdminClient
from kerolox.client import Message, MessageQueue
from kerolox.client.sync import Producer
from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import TOOLS_GROUP, read_options
from kerolox.spark.read.stream import LimitedStreamReader
from kerolox.spark.read.task import ReadTask, read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.source import BatchReader
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.told("reading")]

COUNT = 3000


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def namesrv_addr(version: str) -> Iterator[str]:
    require_java()
    with ExitStack() as stack:
        address = stack.enter_context(servers.name_server(version)).address
        stack.enter_context(servers.broker(version, address, properties={"enablePropertyFilter": "true"}))
        asyncio.run(until_listed(address, "broker-a"))
        admin = stack.enter_context(AdminClient(namesrv_addr=address, timeout_seconds=30))
        admin.topics.create("orders", read_queues=2, write_queues=2)
        producer = stack.enter_context(Producer("tests", namesrv_addr=address, send_timeout_seconds=60))
        for first in range(0, COUNT, 100):
            messages = [
                Message(
                    "orders", b"%d" % number, tag="even" if number % 2 == 0 else "odd", properties={"n": str(number)}
                )
                for number in range(first, first + 100)
            ]
            producer.send(messages, queue=MessageQueue("broker-a", first // 100 % 2, "orders"))
        yield address


def _message(number: int) -> Message:
    tag = "even" if number % 2 == 0 else "odd"
    return Message("orders", b"%d" % number, tag=tag, properties={"n": str(number)})


def _read_task(address: str, options: Mapping[str, str], *, is_stream: bool = False) -> ReadTask:
    given = {"nameServer": address, "subscribe": "orders", **options}
    if "startingTimestamp" not in options:
        given.setdefault("startingOffsets", "earliest")
    return read_task(read_options(given, is_stream=is_stream), topic_schema())


def _numbers(reader: Any, partitions: Any) -> list[int]:
    found: list[int] = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        for batch in reader.read(partition):
            found += map(int, batch.column("body").to_pylist())
    return sorted(found)


def _batch(address: str, **options: str) -> list[int]:
    reader = BatchReader(_read_task(address, options))
    return _numbers(reader, reader.partitions())


def test_all_messages_are_read_although_a_response_has_at_most_32(namesrv_addr: str) -> None:
    assert _batch(namesrv_addr) == list(range(COUNT))
    assert _batch(namesrv_addr, maxRecordsPerPartition="333") == list(range(COUNT))


def test_the_broker_filters_by_tags_and_sql(namesrv_addr: str) -> None:
    assert _batch(namesrv_addr, tags="odd") == list(range(1, COUNT, 2))
    assert _batch(namesrv_addr, sql="n BETWEEN 100 AND 104") == [100, 101, 102, 103, 104]


def test_a_read_starts_at_the_offsets_of_a_group_or_at_a_timestamp(namesrv_addr: str) -> None:
    with AdminClient(namesrv_addr=namesrv_addr, timeout_seconds=30) as admin:
        admin.groups.create("shop")
        for queue_id in range(2):
            admin.offsets.commit("shop", MessageQueue("broker-a", queue_id, "orders"), COUNT // 2 - 5)

    assert len(_batch(namesrv_addr, startingOffsets="latest", startingGroup="shop")) == 10
    far = {"startingTimestamp": "4000000000000", "startingOffsetsByTimestampStrategy": "latest"}
    reader = BatchReader(
        read_task(
            read_options({"nameServer": namesrv_addr, "subscribe": "orders", **far}, is_stream=False), topic_schema()
        )
    )
    assert reader.partitions() == []


def test_a_timestamp_means_the_first_message_stored_at_or_after_it(namesrv_addr: str) -> None:
    """All messages of a batch have the same time; 4.9 brokers return any of them, or a message near the time."""
    reader = BatchReader(_read_task(namesrv_addr, {}))
    times: dict[int, dict[int, int]] = {0: {}, 1: {}}
    for partition in reader.partitions():
        for batch in reader.read(partition):
            for row in batch.select(["queueId", "queueOffset", "storeTimestamp"]).to_pylist():
                times[row["queueId"]][row["queueOffset"]] = round(row["storeTimestamp"].timestamp() * 1000)
    stored = {millis for all_times in times.values() for millis in all_times.values()}
    asked = sorted({millis + more for millis in stored for more in (-1, 0, 1)})
    gaps = [later - earlier for earlier, later in pairwise(sorted(set(times[0].values())))]
    assert len(set(times[0].values())) < len(times[0])
    assert max(gaps) > 2
    asked += [asked[0] - 1000, asked[-1] + 1000, *(min(times[0].values()) + more for more in range(2, 2 * max(gaps)))]
    cluster = ClusterMetadata(ConnectionOptions(name_servers=namesrv_addr), TOOLS_GROUP)
    cluster.routes(["orders"])
    queues = {queue_id: MessageQueue("broker-a", queue_id, "orders") for queue_id in times}
    ends = cluster.max_offsets(queues.values()).offsets

    for millis in asked:
        found = cluster.offsets_at(dict.fromkeys(queues.values(), millis), ends).offsets
        for queue_id, queue in queues.items():
            later = [offset for offset, time in times[queue_id].items() if time >= millis]
            assert found[queue] == min(later, default=ends[queue]), millis

    first, last = min(times[0].values()), sorted(set(times[0].values()))[5]
    between = _batch(namesrv_addr, startingTimestamp=str(first + 1), endingTimestamp=str(last))
    assert len(between) == sum(first < time < last for all_times in times.values() for time in all_times.values())


def test_a_stream_reads_a_topic_in_limited_batches_and_commits_its_progress(namesrv_addr: str) -> None:
    options = {"maxOffsetsPerTrigger": "1000", "groupId": "spark"}
    reader = LimitedStreamReader(_read_task(namesrv_addr, options, is_stream=True))
    reader.prepareForTriggerAvailableNow()
    position: dict[str, Any] = {}
    batches = []
    while (end := reader.latestOffset(position, ReadMaxRows(1000))) != position:
        batches.append(_numbers(reader, reader.partitions(position, end)))
        position = end

    assert [len(batch) for batch in batches] == [1000] * 3
    assert sorted(number for batch in batches for number in batch) == list(range(COUNT))
    with AdminClient(namesrv_addr=namesrv_addr, timeout_seconds=30) as admin:
        assert admin.offsets.progress("spark", "orders").lag == 0
