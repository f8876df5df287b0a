"""Checking that records belong to a queue, for every layout of a record."""

import pytest

from kerolox.message.message import Message
from kerolox.message.records.record import encode, stamp
from kerolox.store.queue.entry_check import are_of_queue, is_of_queue

IPV4, IPV6 = bytes(8), bytes(20)
HOSTS = [(born, store) for born in (IPV4, IPV6) for store in (IPV4, IPV6)]
# The length prefix of the topic has one byte, or two for the last one, a retry topic.
TOPICS = ["t", "orders", "t" * 127, "%RETRY%" + "g" * 200]


def record(topic: str, queue_id: int, queue_offset: int, body: bytes, hosts: tuple[bytes, bytes]) -> bytes:
    message = Message(topic, body, b"KEYS\x01k\x02", queue_id=queue_id, born_host=hosts[0], store_host=hosts[1])
    made = encode(message)
    stamp(made, queue_offset, 1000, 2000)
    return bytes(made)


@pytest.mark.parametrize("hosts", HOSTS, ids=["4-4", "4-6", "6-4", "6-6"])
@pytest.mark.parametrize("topic", TOPICS, ids=["one", "usual", "longest", "group"])
@pytest.mark.parametrize("is_even", [True, False], ids=["of one size", "of several sizes"])
def test_records_are_identified_by_topic_queue_id_and_queue_offset(
    topic: str, hosts: tuple[bytes, bytes], is_even: bool
) -> None:
    bodies = [b"x" * (10 if is_even else number) for number in range(5)]
    run = b"".join(record(topic, 3, 7 + number, body, hosts) for number, body in enumerate(bodies))
    name = topic.encode()

    for runs in ([run], [memoryview(run)]):
        assert are_of_queue(runs, name, 3, range(7, 12))
        assert not are_of_queue(runs, name, 2, range(7, 12))
        assert not are_of_queue(runs, name, 3, range(8, 13))
        assert not are_of_queue(runs, name, 3, range(7, 11))
        assert not are_of_queue(runs, name, 3, range(7, 13))
        assert not are_of_queue(runs, name[:-1] + b"?", 3, range(7, 12))
        assert not are_of_queue(runs, name + b"s", 3, range(7, 12))
        assert not are_of_queue(runs, name[:-1], 3, range(7, 12))


def test_one_record_of_another_queue_among_many_is_detected() -> None:
    records = [record("orders", 0, number, b"body", (IPV4, IPV4)) for number in range(40)]
    records[20] = record("parts_", 0, 20, b"body", (IPV4, IPV4))

    assert not are_of_queue([b"".join(records)], b"orders", 0, range(40))
    assert are_of_queue([b"".join(records[:20])], b"orders", 0, range(20))


def test_layouts_may_differ_from_record_to_record() -> None:
    records = [record("orders", 0, number, b"b" * number, HOSTS[number % 4]) for number in range(8)]

    assert are_of_queue([b"".join(records)], b"orders", 0, range(8))
    assert are_of_queue(records, b"orders", 0, range(8))


@pytest.mark.parametrize("size", range(0, 110, 7))
def test_a_truncated_record_belongs_to_no_queue(size: int) -> None:
    assert not is_of_queue(record("orders", 0, 0, b"body", (IPV6, IPV6))[:size] or b"\0", b"orders", 0, 0)
