"""Records of the revive log, in the format of Java."""

from kerolox.broker.pop.checkpoints import Ack, Checkpoint, ReviveLog
from kerolox.message.message import Message
from tests.golden import pop as golden

POPPED = 1_700_000_000_123
REVIVE_LOG = ReviveLog("rmq_sys_REVIVE_LOG_c", "broker-a", lambda: POPPED)


def checkpoint(**changes: object) -> Checkpoint:
    defaults = {
        "broker_name": "broker-a",
        "group": "readers",
        "diffs": [0, 1, 4],
        "invisible_time": 60_000,
        "count": 3,
        "pop_time": POPPED,
        "queue_id": 2,
        "start_offset": 40,
        "topic": "orders",
    }
    return Checkpoint(**(defaults | changes))  # type: ignore[arg-type]


def ack(offset: int, offsets: list[int] | None = None) -> Ack:
    return Ack(
        offset=offset,
        offsets=offsets,
        broker_name="broker-a",
        group="readers",
        pop_time=POPPED,
        queue_id=2,
        start_offset=40,
        topic="orders",
    )


def test_a_checkpoint_is_written_as_java_writes_it() -> None:
    message = REVIVE_LOG.checkpoint(checkpoint(), 5)

    assert message.body.decode() == golden.load()["checkpoint"]
    assert (message.topic, message.queue_id, message.tags) == ("rmq_sys_REVIVE_LOG_c", 5, "ck")
    assert message.get("TIMER_DELIVER_MS") == str(POPPED + 60_000 - 1000)
    assert message.get("UNIQ_KEY") == f"orders@2@40@readers@{POPPED}@broker-a@ck"


def test_acks_are_written_as_java_writes_them() -> None:
    one = REVIVE_LOG.ack(ack(41), 5, POPPED + 60_000)
    batch = REVIVE_LOG.ack(ack(-1, [40, 44]), 5, POPPED + 60_000)

    assert (one.body.decode(), one.tags) == (golden.load()["ack"], "ack")
    assert (batch.body.decode(), batch.tags) == (golden.load()["batch-ack"], "bAck")
    assert one.get("TIMER_DELIVER_MS") == str(POPPED + 60_000)


def test_records_of_java_are_decoded() -> None:
    found = golden.load()
    for tag, name in (("ck", "checkpoint"), ("ack", "ack"), ("bAck", "batch-ack")):
        read = REVIVE_LOG.decode(Message("t", found[name].encode(), f"TAGS\x01{tag}\x02".encode()))
        assert read is not None
        assert read.key == ("orders", "readers", 2, 40, POPPED, "broker-a")


def test_an_ack_marks_its_message_only() -> None:
    popped = checkpoint()

    for offset in (41, 42, 99, 0):
        popped.ack(offset)

    assert popped.unacked == [40, 44]


def test_a_checkpoint_of_an_old_release_has_consecutive_offsets() -> None:
    popped = checkpoint(diffs=None)
    popped.ack(41)
    assert popped.unacked == [40, 42]


def test_malformed_records_are_decoded_as_none() -> None:
    assert REVIVE_LOG.decode(Message("t", b"{}", b"TAGS\x01ck\x02")) is None
    assert REVIVE_LOG.decode(Message("t", b"not json", b"TAGS\x01ack\x02")) is None
    assert REVIVE_LOG.decode(Message("t", b"{}", b"TAGS\x01other\x02")) is None


def test_an_ack_without_a_broker_name_belongs_to_this_broker() -> None:
    body = golden.load()["ack"].replace('"bn":"broker-a",', "").encode()

    read = REVIVE_LOG.decode(Message("t", body, b"TAGS\x01ack\x02"))

    assert read is not None
    assert read.broker_name == "broker-a"
