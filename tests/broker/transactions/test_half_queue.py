"""Half messages and committed messages, compared with records of Java."""

import pytest
from msgspec.structs import replace

from kerolox.broker.tables.system_topics import HALF_TOPIC, OP_TOPIC
from kerolox.broker.transactions import half_queue
from kerolox.broker.transactions.op_queue import half_offsets
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode, encode
from tests.golden.records import VERSIONS, load


def stored_by_java(version: str) -> list[Message]:
    return [decode(golden.record) for golden in load(version)]


def pairs(version: str) -> list[tuple[Message, Message]]:
    """Return the half messages that Java committed, each with its committed message."""
    stored = stored_by_java(version)
    halves = {message.physical_offset: message for message in stored if message.topic == HALF_TOPIC}
    return [
        (halves[offset], message)
        for message in stored
        if (offset := message.prepared_transaction_offset) in halves and offset
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_committed_record_equals_that_of_java(version: str) -> None:
    committed = pairs(version)
    assert len(committed) >= 2
    for half, theirs in committed:
        ours = half_queue.committed(half)
        is_4_x = version.startswith("4")
        if is_4_x:
            # 4.x keeps REAL_TOPIC and REAL_QID in the committed message; 5.5 and we do not.
            properties = {name: text for name, text in theirs.parsed.items() if not name.startswith("REAL_")}
            assert ours.parsed == properties
            theirs = replace(theirs, properties=ours.properties)
        ours = replace(
            ours,
            queue_offset=theirs.queue_offset,
            physical_offset=theirs.physical_offset,
            store_timestamp=theirs.store_timestamp,
        )
        assert encode(ours) == encode(theirs)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checked_half_message_is_put_back_as_in_java(version: str) -> None:
    stored = [message for message in stored_by_java(version) if message.topic == HALF_TOPIC]
    (put_back,) = [message for message in stored if message.get("TRANSACTION_CHECK_TIMES")]
    (first,) = [message for message in stored if message.get("UNIQ_KEY") == put_back.get("UNIQ_KEY")][:-1]

    ours = half_queue.with_check_times(first, half_queue.check_times(first) + 1)

    assert ours.parsed == put_back.parsed
    assert (ours.body, ours.sys_flag, ours.born_timestamp) == (
        put_back.body,
        put_back.sys_flag,
        put_back.born_timestamp,
    )
    assert half_queue.check_times(put_back) == 1


@pytest.mark.parametrize(("version", "named"), [("4.9.7", [[0], [1], [3]]), ("5.5.0", [[1, 0], [3]])])
def test_ops_of_java_are_read(version: str, named: list[list[int]]) -> None:
    ops = [message for message in stored_by_java(version) if message.topic == OP_TOPIC]
    assert [half_offsets(op) for op in ops] == named


def test_real_topic_properties_set_by_the_sender_are_ignored() -> None:
    forged = {"TRAN_MSG": "true", "REAL_TOPIC": "secret", "REAL_QID": "9", "UNIQ_KEY": "K", "__transactionId__": "x"}
    half = half_queue.prepared(Message("orders", b"", to_bytes(forged), 2))

    assert half.properties.count(b"REAL_TOPIC") == 1
    assert (half_queue.target(half), half.get("__transactionId__")) == (("orders", 2), "K")


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_a_message_with_tran_msg_true_is_a_half_message(text: str) -> None:
    assert half_queue.is_half(Message("orders", b"", to_bytes({"TRAN_MSG": text})))


@pytest.mark.parametrize("names", [{"TRAN_MSG": "false"}, {"TRAN_MSG": "1"}, {"X_TRAN_MSG": "true"}, {"A": "TRAN_MSG"}])
def test_other_messages_are_not_half_messages(names: dict[str, str]) -> None:
    assert not half_queue.is_half(Message("orders", b"", to_bytes(names)))


@pytest.mark.parametrize("names", [{}, {"REAL_TOPIC": "t"}, {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"}])
def test_a_half_message_without_a_valid_target_is_not_committed(names: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        half_queue.committed(Message(HALF_TOPIC, b"", to_bytes(names)))


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("5", 5), ("-1", -1), ("soon", -1)])
def test_an_immunity_time_that_is_not_a_number_is_minus_one(text: str | None, seconds: int | None) -> None:
    names = {} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}
    assert half_queue.immunity_seconds(Message(HALF_TOPIC, b"", to_bytes(names))) == seconds


def test_a_half_message_postponed_twice_keeps_its_first_queue_offset() -> None:
    first = half_queue.postponed(Message(HALF_TOPIC, b"", queue_offset=5))
    second = half_queue.postponed(replace(first, queue_offset=9))

    assert second.get("TRAN_PREPARED_QUEUE_OFFSET") == "5"
