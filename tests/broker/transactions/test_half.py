"""Half messages and what becomes of them, compared with those that Java stored."""

import pytest
from msgspec.structs import replace

from kerolox.broker.system_topics import HALF_TOPIC, OP_TOPIC
from kerolox.broker.transactions import half as halves
from kerolox.broker.transactions.ops import half_offsets
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.record import decode, encode
from tests.golden.records import VERSIONS, load


def stored_by_java(version: str) -> list[Message]:
    return [decode(golden.record) for golden in load(version)]


def pairs(version: str) -> list[tuple[Message, Message]]:
    """Returns the half messages that Java committed, each with what it became."""
    stored = stored_by_java(version)
    found = {message.physical_offset: message for message in stored if message.topic == HALF_TOPIC}
    return [(found[at], message) for message in stored if (at := message.prepared_transaction_offset) in found and at]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_committed_record_is_what_java_makes_of_the_half_message(version: str) -> None:
    made = pairs(version)
    assert len(made) >= 2
    for half, theirs in made:
        ours = halves.committed(half)
        is_4_x = version.startswith("4")
        if is_4_x:
            # It keeps where the message was to go to; 5.5 does not, and nobody reads it.
            kept = {name: text for name, text in theirs.parsed.items() if not name.startswith("REAL_")}
            assert ours.parsed == kept
            theirs = replace(theirs, properties=ours.properties)
        placed = replace(
            ours,
            queue_offset=theirs.queue_offset,
            physical_offset=theirs.physical_offset,
            store_timestamp=theirs.store_timestamp,
        )
        assert encode(placed) == encode(theirs)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_half_message_that_is_asked_about_is_put_back_as_java_does(version: str) -> None:
    stored = [message for message in stored_by_java(version) if message.topic == HALF_TOPIC]
    (again,) = [message for message in stored if message.get("TRANSACTION_CHECK_TIMES")]
    (first,) = [message for message in stored if message.get("UNIQ_KEY") == again.get("UNIQ_KEY")][:-1]

    ours = halves.again(first, halves.check_times(first) + 1)

    assert ours.parsed == again.parsed
    assert (ours.body, ours.sys_flag, ours.born_timestamp) == (again.body, again.sys_flag, again.born_timestamp)
    assert halves.check_times(again) == 1


@pytest.mark.parametrize(("version", "named"), [("4.9.7", [[0], [1], [3]]), ("5.5.0", [[1, 0], [3]])])
def test_ops_of_java_are_understood(version: str, named: list[list[int]]) -> None:
    ops = [message for message in stored_by_java(version) if message.topic == OP_TOPIC]
    assert [half_offsets(op) for op in ops] == named


def test_names_that_a_sender_put_there_do_not_decide_where_a_message_goes() -> None:
    forged = {"TRAN_MSG": "true", "REAL_TOPIC": "secret", "REAL_QID": "9", "UNIQ_KEY": "K", "__transactionId__": "x"}
    half = halves.prepared(Message("orders", b"", to_bytes(forged), 2))

    assert half.properties.count(b"REAL_TOPIC") == 1
    assert (halves.target(half), half.get("__transactionId__")) == (("orders", 2), "K")


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_a_half_message_says_true(text: str) -> None:
    assert halves.is_half(Message("orders", b"", to_bytes({"TRAN_MSG": text})))


@pytest.mark.parametrize("names", [{"TRAN_MSG": "false"}, {"TRAN_MSG": "1"}, {"X_TRAN_MSG": "true"}, {"A": "TRAN_MSG"}])
def test_other_messages_are_no_half_messages(names: dict[str, str]) -> None:
    assert not halves.is_half(Message("orders", b"", to_bytes(names)))


@pytest.mark.parametrize("names", [{}, {"REAL_TOPIC": "t"}, {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"}])
def test_a_half_message_that_belongs_nowhere_is_not_committed(names: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        halves.committed(Message(HALF_TOPIC, b"", to_bytes(names)))


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("5", 5), ("-1", -1), ("soon", -1)])
def test_a_time_that_is_none_is_that_of_the_broker(text: str | None, seconds: int | None) -> None:
    names = {} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}
    assert halves.immunity_seconds(Message(HALF_TOPIC, b"", to_bytes(names))) == seconds


def test_what_is_spared_twice_keeps_its_first_place() -> None:
    first = halves.spared(Message(HALF_TOPIC, b"", queue_offset=5))
    second = halves.spared(replace(first, queue_offset=9))

    assert second.get("TRAN_PREPARED_QUEUE_OFFSET") == "5"
