"""Delivered messages equal those of Java's broker."""

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import parse, to_bytes
from kerolox.message.records.record import decode, encode
from kerolox.store.errors import NotStorable
from kerolox.store.timer.convert import append_of, decode_timer_message, delivery_key, restore_message
from kerolox.store.timer.divert import TIMER_TOPIC
from tests.golden.records import load

OUT = 1_700_000_005_000


def timer_record(**properties: str) -> bytes:
    known = {"TIMER_OUT_MS": str(OUT), "REAL_TOPIC": "orders", "REAL_QID": "2", "UNIQ_KEY": "a"}
    return bytes(encode(Message(TIMER_TOPIC, b"body", to_bytes({**known, **properties}))))


def test_a_golden_message_is_delivered_as_by_java() -> None:
    timer_message, delivered = [record.record for record in load("5.5.0") if record.case == "v5/timer"]
    theirs = decode(delivered)
    enqueue_time, dequeue_time = (int(theirs.get(f"TIMER_{kind}_MS") or 0) for kind in ("ENQUEUE", "DEQUEUE"))
    known = decode_timer_message(timer_message)
    assert known is not None

    ours = restore_message(known, enqueue_time, dequeue_time, rolls=False)

    assert parse(ours.properties) == theirs.parsed
    assert len(ours.properties) == len(theirs.properties)
    for name in ("topic", "body", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_a_message_that_rolls_stays_in_the_timer_topic_with_a_count() -> None:
    known = decode_timer_message(timer_record())
    assert known is not None
    once = restore_message(known, 1, 2, rolls=True)
    again = decode_timer_message(bytes(encode(once)))
    assert again is not None
    twice = restore_message(again, 3, 4, rolls=True)
    assert (twice.topic, twice.queue_id, twice.get("TIMER_ROLL_TIMES")) == (TIMER_TOPIC, 0, "2")
    assert (twice.get("TIMER_ENQUEUE_MS"), twice.get("TIMER_DEQUEUE_MS")) == ("3", "4")
    for name in ("TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"):
        assert twice.properties.count(name.encode()) == 1


@pytest.mark.parametrize("times", ["soon", "9" * 5000, "-1"])
def test_an_invalid_roll_count_restarts_at_one(times: str) -> None:
    known = decode_timer_message(timer_record(TIMER_ROLL_TIMES=times))
    assert known is not None
    assert restore_message(known, 1, 2, rolls=True).get("TIMER_ROLL_TIMES") == "1"


@pytest.mark.parametrize(
    "record",
    [
        b"",
        bytes(100),
        bytes(encode(Message("orders", b"", to_bytes({"TIMER_OUT_MS": "1", "REAL_TOPIC": "t"})))),
        bytes(encode(Message(TIMER_TOPIC, b"", to_bytes({"REAL_TOPIC": "t"})))),
        bytes(encode(Message(TIMER_TOPIC, b"", to_bytes({"TIMER_OUT_MS": "1"})))),
        bytes(encode(Message(TIMER_TOPIC, b"", to_bytes({"TIMER_OUT_MS": "9" * 5000, "REAL_TOPIC": "t"})))),
    ],
)
def test_other_records_are_not_timer_messages(record: bytes) -> None:
    assert decode_timer_message(record) is None


@pytest.mark.parametrize("queue", ["-1", "x", "9" * 5000])
def test_a_message_without_a_valid_queue_is_not_storable(queue: str) -> None:
    known = decode_timer_message(timer_record(REAL_QID=queue))
    assert known is not None
    with pytest.raises(NotStorable, match="has no valid REAL_QID"):
        restore_message(known, 1, 2, rolls=False)


def test_a_message_that_is_too_large_is_not_storable() -> None:
    known = decode_timer_message(timer_record())
    assert known is not None
    message = restore_message(known, 1, 2, rolls=False)
    size = len(append_of(message, 10_000).records)
    with pytest.raises(NotStorable, match=f"a record of {size} bytes, at most {size - 1} fit"):
        append_of(message, size - 1)


def test_deliveries_of_one_message_have_the_same_key() -> None:
    known = decode_timer_message(timer_record())
    assert known is not None
    first, second = restore_message(known, 1, 2, rolls=False), restore_message(known, 3, 4, rolls=False)
    assert delivery_key(first.topic, first.properties) == delivery_key(second.topic, second.properties)
    rolled = restore_message(known, 1, 2, rolls=True)
    assert delivery_key(rolled.topic, rolled.properties) != delivery_key(first.topic, first.properties)
    assert delivery_key(TIMER_TOPIC, known.message.properties) is None
