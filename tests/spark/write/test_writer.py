"""Sending to real brokers: every message arrives, and those of a sharding key in order."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kerolox.broker import Broker
from kerolox.client.producer.settings import ProducerSettings
from kerolox.codes import CURRENT_VERSION
from kerolox.message.message import Message as Record
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode_all
from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.write import writer
from kerolox.spark.write.columns import EncodedRow
from kerolox.spark.write.writer import DeliveryTimeUnsupported, PartitionSender, SendOptions, WriteFailed
from tests.spark.clusters import Brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b") as cluster:
        yield cluster


def test_every_message_arrives_with_its_properties(cluster: Brokers) -> None:
    cluster.create("plain")

    counts = write(cluster, [row("plain", number) for number in range(1000)], batch_bytes=4000)

    found = stored(cluster, "plain")
    assert counts == {"plain": 1000}
    assert sorted(int(record.body) for record in found) == list(range(1000))
    assert all(record.parsed["number"] == record.body.decode() for record in found)
    assert len({record.store_host for record in found}) == 2


def test_rows_are_sent_to_their_own_topics(cluster: Brokers) -> None:
    for topic in ("first", "second"):
        cluster.create(topic)

    counts = write(cluster, [row(("first", "second")[number % 2], number) for number in range(10)])

    assert counts == {"first": 5, "second": 5}
    assert sorted(int(record.body) for record in stored(cluster, "second")) == [1, 3, 5, 7, 9]


def test_messages_of_a_key_stay_in_order_and_in_one_queue(cluster: Brokers) -> None:
    cluster.create("ordered", 4)
    rows = [row("ordered", number, key=f"key-{number % 7}") for number in range(2000)]

    write(cluster, rows, batch_bytes=2000)

    by_key: dict[str, list[int]] = defaultdict(list)
    queues: dict[str, set[tuple[bytes, int]]] = defaultdict(set)
    for record in stored(cluster, "ordered"):
        key = f"key-{int(record.body) % 7}"
        by_key[key].append(int(record.body))
        queues[key].add((record.store_host, record.queue_id))
    assert by_key == {f"key-{rest}": list(range(rest, 2000, 7)) for rest in range(7)}
    assert {len(used) for used in queues.values()} == {1}


def test_delayed_messages_are_not_batched(cluster: Brokers) -> None:
    cluster.create("late")

    counts = write(cluster, [row("late", number, DELAY="1") for number in range(3)])

    assert counts == {"late": 3}
    waiting = stored(cluster, "SCHEDULE_TOPIC_XXXX", 1)
    assert sorted(int(record.body) for record in waiting) == [0, 1, 2]


def test_delivery_times_are_not_sent_to_brokers_without_timers(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("timed")
    monkeypatch.setattr(writer, "DELIVERY_TIME_SINCE", CURRENT_VERSION + 1)
    now, later = row("timed", 1), row("timed", 2, TIMER_DELAY_MS="3600000")

    with pytest.raises(
        DeliveryTimeUnsupported, match=r"column delay .*'timed' .*\(broker-a, broker-b\).* column delayLevel"
    ):
        write(cluster, [now, later], time_column="delay")
    assert stored(cluster, "timed") == []

    # Every broker supports delay levels.
    assert write(cluster, [row("timed", 3, DELAY="1")]) == {"timed": 1}


def test_pending_bytes_are_bounded_for_any_number_of_topics(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_PENDING_BYTES_MAX", 10_000)
    topics = [f"pending-{number}" for number in range(20)]
    for topic in topics:
        cluster.create(topic, 1, "broker-a")
    pending: list[int] = []

    def rows() -> Iterator[EncodedRow]:
        for number in range(400):
            pending.append(sum(batch.size for batch in sender._pending.values()))
            yield topics[number % 20], bytes(500), b"", None, False

    sender = PartitionSender(ConnectionOptions(name_servers=cluster.namesrv_addr), SendOptions(group="tests"))
    try:
        sender.add(rows())
        sender.finish()
    finally:
        sender.close()

    assert 9_000 < max(pending) <= 10_000
    assert sender.counts == dict.fromkeys(topics, 20)
    assert sum(len(stored(cluster, topic, 1)) for topic in topics) == 400


def test_an_unknown_topic_is_named_with_the_reason(cluster: Brokers) -> None:
    with pytest.raises(WriteFailed, match=r"to topic 'nowhere': .*does not exist"):
        write(cluster, [row("nowhere", 1)], retry_seconds=0.5)
    with pytest.raises(WriteFailed, match=r"to topic 'nowhere': .*does not exist"):
        write(cluster, [row("nowhere", 1, key="a")], retry_seconds=0.5)


def test_a_refusal_names_the_topic_and_the_reason(cluster: Brokers) -> None:
    cluster.create("large")
    huge = ("large", b"x" * 5_000_000, b"", None, False)

    with pytest.raises(WriteFailed, match=r"topic 'large': .*4194304"):
        write(cluster, [huge])


@pytest.mark.parametrize("key", [None, "a"])
def test_sends_are_retried_until_a_restarted_broker_is_back(cluster: Brokers, key: str | None) -> None:
    topic = f"patient-{key}"
    cluster.create(topic, 1, "broker-b")
    write(cluster, [row(topic, 0, key=key)])
    cluster.stop("broker-b")
    with Watch("failed and is retried") as watch:

        def start() -> None:
            if watch.seen.wait():
                cluster.start("broker-b")

        starting = threading.Thread(target=start)
        starting.start()

        write(cluster, [row(topic, number, key=key) for number in range(1, 5)], send_seconds=2.0)
        starting.join()

    assert [int(record.body) for record in stored(cluster, topic, 1)] == [0, 1, 2, 3, 4]


def test_a_broker_that_stays_down_is_an_error_after_the_retry_timeout(cluster: Brokers) -> None:
    cluster.create("hopeless", 1, "broker-b")
    cluster.stop("broker-b")
    try:
        with pytest.raises(WriteFailed, match="a row could not be written to topic 'hopeless': "):
            write(cluster, [row("hopeless", 1)], send_seconds=0.5, retry_seconds=1.0)
    finally:
        cluster.start("broker-b")


class Watch(logging.Handler):
    """Waits for a log message."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.seen.set()

    def __enter__(self) -> Watch:
        logging.getLogger("kerolox.spark.write.writer").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.seen.set()
        logging.getLogger("kerolox.spark.write.writer").removeHandler(self)


def test_producer_settings_reach_the_sender(cluster: Brokers) -> None:
    settings = ProducerSettings(retry_times_when_send_failed=0, default_topic_queue_nums=7)
    options = SendOptions(group="tests", send_seconds=4.0, in_flight_max=3, settings=settings)
    sender = PartitionSender(ConnectionOptions(name_servers=cluster.namesrv_addr), options)
    try:
        actual = sender._sender._settings
    finally:
        sender.close()

    assert actual == replace(settings, send_timeout_seconds=4.0, sends_in_flight_max=3)


def row(topic: str, number: int, key: str | None = None, **properties: str) -> EncodedRow:
    text = to_bytes({"UNIQ_KEY": f"{number:032X}", "number": str(number), **properties})
    return topic, b"%d" % number, text, key, bool(properties)


def write(
    cluster: Brokers, rows: list[EncodedRow], *, time_column: str | None = None, **settings: float
) -> dict[str, int]:
    sends = SendOptions(group="tests", **settings)  # type: ignore[arg-type]
    sender = PartitionSender(ConnectionOptions(name_servers=cluster.namesrv_addr), sends, time_column)
    try:
        sender.add(rows)
        sender.finish()
    finally:
        sender.close()
    return dict(sender.counts)


def stored(cluster: Brokers, topic: str, queues: int = 4) -> list[Record]:
    """Return the stored records of a topic, queue by queue."""
    found: list[Record] = []
    for broker in cluster.brokers.values():
        for queue_id in range(queues):
            found += cluster.wait(_records(broker, topic, queue_id))
    return found


async def _records(broker: Broker, topic: str, queue_id: int) -> list[Record]:
    found: list[Record] = []
    while runs := broker.store.reader.get(topic, queue_id, len(found)).runs:
        for run in runs:
            found += decode_all(bytes(run))
    return found
