"""Queries of the driver, with real brokers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerolox.errors import ConfigurationError, ConnectFailed, RemotingError
from kerolox.runtime.clock import SystemClock
from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import TOOLS_GROUP
from kerolox.spark.read.offset_json import queue_range
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered

Q0, Q1 = MessageQueue("broker-a", 0, "orders"), MessageQueue("broker-a", 1, "orders")
TIME = 1_700_000_000_000


class _FixedClock(SystemClock):
    """A clock with a fixed time."""

    def __init__(self, millis: int) -> None:
        self._millis = millis

    def millis(self) -> int:
        return self._millis


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster")) as brokers:
        brokers.create("orders", 2)
        brokers.send("orders", *numbered(5))
        # Forty messages each have the same store time.
        brokers.create("timed", 1)
        store: Any = brokers.brokers["broker-a"].store
        clock = store._clock
        for number in range(10):
            store._clock = _FixedClock(TIME + 1000 + number * 10)
            brokers.send("timed", *numbered(40))
        store._clock = clock
        yield brokers


@pytest.fixture
def cluster(brokers: Brokers) -> ClusterMetadata:
    cluster = ClusterMetadata(ConnectionOptions(name_servers=brokers.namesrv_addr), TOOLS_GROUP)
    cluster.routes(["orders", "nothing"])
    return cluster


def test_min_and_max_offsets_are_queried(cluster: ClusterMetadata) -> None:
    assert (cluster.min_offsets([Q0, Q1]).offsets, cluster.max_offsets([Q0, Q1]).offsets) == (
        {Q0: 0, Q1: 0},
        {Q0: 5, Q1: 0},
    )


def test_an_unknown_topic_has_no_route(cluster: ClusterMetadata) -> None:
    assert list(cluster.routes(["orders", "nothing"])) == ["orders"]


def test_times_resolve_to_offsets_and_later_ones_to_the_end(cluster: ClusterMetadata, brokers: Brokers) -> None:
    reader = brokers.brokers["broker-a"].store.reader
    first, last = (reader.store_time("orders", 0, offset) for offset in (0, 4))

    def at(millis: int) -> int:
        return cluster.offsets_at({Q0: millis}, {Q0: 5}).offsets[Q0]

    assert (at(0), at(first), at(last + 1)) == (0, 0, 5)


@pytest.mark.parametrize("kind", ["first", "nearest", "any of equal ones", "last", "of another file", "far too far"])
def test_a_time_resolves_to_the_first_message_for_any_broker_response(
    cluster: ClusterMetadata, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    reader = brokers.brokers["broker-a"].store.reader
    cluster.routes(["timed"])
    queue = MessageQueue("broker-a", 0, "timed")
    # The first messages are deleted.
    stored = brokers.brokers["broker-a"].store.queues.get("timed", 0)
    assert stored is not None
    monkeypatch.setattr(stored, "min_offset", 7)
    there = [(offset, reader.store_time("timed", 0, offset)) for offset in range(7, 400)]

    def right(millis: int) -> int:
        return next((offset for offset, time in there if time >= millis), 400)

    def answer(topic: str, queue_id: int, millis: int, *_: object) -> int:
        nearest, _time = min(there, key=lambda it: abs(it[1] - millis))
        answers = {"first": right(millis), "nearest": nearest, "any of equal ones": nearest + 17, "last": 399}
        return answers.get(kind, 0 if kind == "of another file" else 5000)

    monkeypatch.setattr(reader, "offset_at", answer)
    for millis in (0, 999, 1000, 1001, 1004, 1005, 1006, 1010, 1047, 1089, 1090, 1091, 10**12):
        assert cluster.offsets_at({queue: TIME + millis}, {queue: 400}).offsets == {queue: right(TIME + millis)}, millis


def test_a_time_of_a_deleted_message_resolves_to_the_next_one(
    cluster: ClusterMetadata, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.routes(["timed"])
    queue = MessageQueue("broker-a", 0, "timed")
    reader = brokers.brokers["broker-a"].store.reader
    gone = {reader.physical_offset("timed", 0, offset) for offset in (80, 81)}
    records = reader.records
    gather = records.gather

    def gathering(found: object, entries: list[tuple[int, int]], wants: object = None) -> None:
        gather(found, [entry for entry in entries if entry[0] not in gone], wants)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "gather", gathering)
    monkeypatch.setattr(records, "runs", lambda ranges: None)
    for guess in (0, 79, 80, 81, 82, 83, 399):
        monkeypatch.setattr(reader, "offset_at", lambda *_, guess=guess: guess)
        assert cluster.offsets_at({queue: TIME + 1020}, {queue: 400}).offsets == {queue: 82}, guess


def test_committed_offsets_of_a_group_are_returned(cluster: ClusterMetadata, brokers: Brokers) -> None:
    brokers.admin.groups.create("shop")

    assert cluster.commit("shop", {Q0: 3}) == {Q0: 3}

    assert cluster.committed("shop", [Q0, Q1]).offsets == {Q0: 3}


def test_offsets_that_cannot_be_committed_are_left_out(cluster: ClusterMetadata) -> None:
    assert cluster.commit("nobody", {Q0: 3}) == {}


def test_mean_message_sizes_are_estimated(cluster: ClusterMetadata, brokers: Brokers) -> None:
    sizes = cluster.mean_sizes({Q0: 0, Q1: 0})

    record = brokers.brokers["broker-a"].store.reader.get("orders", 0, 0, count_max=1).size
    assert sizes == {Q0: pytest.approx(record, abs=2), Q1: 1024}


def test_patterns_match_whole_names_without_system_topics(cluster: ClusterMetadata, brokers: Brokers) -> None:
    assert cluster.matching_topics(".*") == ["orders", "timed"]
    assert cluster.matching_topics("order") == []
    brokers.admin.topics.create("%DLQ%shop", write_queues=1, read_queues=1)
    assert cluster.matching_topics("%DLQ%.*") == ["%DLQ%shop"]
    assert cluster.matching_topics(".*shop") == []


def test_addresses_are_those_of_masters(cluster: ClusterMetadata, brokers: Brokers) -> None:
    address = brokers.brokers["broker-a"].address

    assert cluster.addresses() == {"broker-a": address}
    assert cluster.address(queue_range(Q0, 0, 1)) == address
    assert cluster.address(queue_range(MessageQueue("broker-a", 9, "orders"), 0, 1)) is None
    assert cluster.address(queue_range(MessageQueue("broker-a", 0, "nothing"), 0, 1)) is None


def test_an_unreachable_broker_fails_only_its_own_queues(tmp_path: Path) -> None:
    with Brokers(tmp_path, "broker-a", "broker-b") as brokers:
        brokers.create("orders", 1)
        cluster = ClusterMetadata(ConnectionOptions(name_servers=brokers.namesrv_addr), TOOLS_GROUP)
        cluster.routes(["orders"])
        brokers.stop("broker-b")

        found = cluster.max_offsets([Q0, MessageQueue("broker-b", 0, "orders")])

        assert found.offsets == {Q0: 0}
        assert [type(error) for error in found.failed.values()] == [ConnectFailed]


def test_a_query_is_retried_until_it_succeeds_or_times_out() -> None:
    answers: list[int | Exception] = [RemotingError("not yet"), 7]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert ClusterMetadata(ConnectionOptions(name_servers="a:1"), "").retry(ask, "offsets") == 7
    answers += [RemotingError("not in time")]
    with pytest.raises(RemotingError, match="not in time"):
        ClusterMetadata(ConnectionOptions(name_servers="a:1", retry_millis=0), "").retry(ask, "offsets")
    answers += [ConfigurationError("never")]
    with pytest.raises(ConfigurationError, match="never"):
        ClusterMetadata(ConnectionOptions(name_servers="a:1"), "").retry(ask, "offsets")
