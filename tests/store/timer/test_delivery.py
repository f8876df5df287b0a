"""What is delivered: what Java's broker delivered of the same message."""

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import parse, to_bytes
from kerolox.message.record import decode, encode
from kerolox.store.errors import NotStorable
from kerolox.store.timer.delivery import draft_of, key_of, restored, timed
from kerolox.store.timer.divert import TIMER_TOPIC
from tests.golden.records import load

OUT = 1_700_000_005_000


def waiting_record(**properties: str) -> bytes:
    known = {"TIMER_OUT_MS": str(OUT), "REAL_TOPIC": "orders", "REAL_QID": "2", "UNIQ_KEY": "a"}
    return bytes(encode(Message(TIMER_TOPIC, b"body", to_bytes({**known, **properties}))))


def test_a_golden_message_becomes_what_java_made_of_it() -> None:
    waiting, delivered = [record.record for record in load("5.5.0") if record.case == "v5/timer"]
    theirs = decode(delivered)
    enqueue_time, dequeue_time = (int(theirs.get(f"TIMER_{kind}_MS") or 0) for kind in ("ENQUEUE", "DEQUEUE"))
    known = timed(waiting)
    assert known is not None

    ours = restored(known, enqueue_time, dequeue_time, rolls=False)

    assert parse(ours.properties) == theirs.parsed
    assert len(ours.properties) == len(theirs.properties)
    for name in ("topic", "body", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_a_message_that_rolls_stays_in_the_timers_topic_and_is_counted() -> None:
    known = timed(waiting_record())
    assert known is not None
    once = restored(known, 1, 2, rolls=True)
    again = timed(bytes(encode(once)))
    assert again is not None
    twice = restored(again, 3, 4, rolls=True)
    assert (twice.topic, twice.queue_id, twice.get("TIMER_ROLL_TIMES")) == (TIMER_TOPIC, 0, "2")
    assert (twice.get("TIMER_ENQUEUE_MS"), twice.get("TIMER_DEQUEUE_MS")) == ("3", "4")
    for name in ("TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"):
        assert twice.properties.count(name.encode()) == 1


@pytest.mark.parametrize("times", ["soon", "9" * 5000, "-1"])
def test_a_number_of_rounds_that_makes_no_sense_begins_again(times: str) -> None:
    known = timed(waiting_record(TIMER_ROLL_TIMES=times))
    assert known is not None
    assert restored(known, 1, 2, rolls=True).get("TIMER_ROLL_TIMES") == "1"


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
def test_what_is_no_timer_message_is_none(record: bytes) -> None:
    assert timed(record) is None


@pytest.mark.parametrize("queue", ["-1", "x", "9" * 5000])
def test_a_message_without_a_queue_is_not_storable(queue: str) -> None:
    known = timed(waiting_record(REAL_QID=queue))
    assert known is not None
    with pytest.raises(NotStorable, match="for which queue"):
        restored(known, 1, 2, rolls=False)


def test_what_does_not_fit_is_not_storable() -> None:
    known = timed(waiting_record())
    assert known is not None
    message = restored(known, 1, 2, rolls=False)
    size = len(draft_of(message, 10_000).records)
    with pytest.raises(NotStorable, match=f"a record of {size} bytes, at most {size - 1} fit"):
        draft_of(message, size - 1)


def test_deliveries_of_one_message_have_one_key_and_others_none() -> None:
    known = timed(waiting_record())
    assert known is not None
    first, second = restored(known, 1, 2, rolls=False), restored(known, 3, 4, rolls=False)
    assert key_of(first.topic, first.properties) == key_of(second.topic, second.properties)
    rolled = restored(known, 1, 2, rolls=True)
    assert key_of(rolled.topic, rolled.properties) != key_of(first.topic, first.properties)
    assert key_of(TIMER_TOPIC, known.message.properties) is None
