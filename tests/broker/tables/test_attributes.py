"""Changes of topic attributes, in the syntax of mqadmin."""

import pytest

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables.attributes import TOPIC_ATTRIBUTES, alter, parse
from kerolox.errors import SystemFailure


def test_changes_are_parsed_with_their_signs() -> None:
    assert parse("+message.type=FIFO,-reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse("") == parse(None) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("+a=1,+a=2", "key duplication: +a"),
    ],
)
def test_malformed_changes_are_rejected_with_the_message_of_java(text: str, message: str) -> None:
    with pytest.raises(SystemFailure) as raised:
        parse(text)

    assert raised.value.remark == message


def test_changes_apply_to_new_topics_and_keep_other_attributes_of_existing_ones() -> None:
    created = alter(TOPIC_ATTRIBUTES, None, parse("+message.type=FIFO,+queue.type=SimpleCQ,+reserve.time=-1"))

    changed = alter(TOPIC_ATTRIBUTES, created, parse("+message.type=NORMAL,-reserve.time"))

    assert changed == {"message.type": "NORMAL", "queue.type": "SimpleCQ"}
    assert created["message.type"] == "FIFO"


@pytest.mark.parametrize(
    ("current", "text", "message"),
    [
        (None, "-message.type", "only add attribute is supported while creating topic. key: message.type"),
        (None, "+unknown=1", "unsupported key: unknown"),
        (None, "+a+b=1", "kv string format wrong."),
        (None, "+=1", "kv string format wrong."),
        (None, "+message.type=ODD", "value is not in set: [UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, MIXED]"),
        (None, "+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        (None, "+reserve.time=99999999999999999999", "value is not in range(-1, 9223372036854775807)"),
        (None, "+reserve.time=soon", 'For input string: "soon"'),
        ({}, "-message.type", "attempt to delete a nonexistent key: message.type"),
        ({}, "+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ({"message.type": "FIFO"}, "+message.type=FIFO,-message.type", "alter duplication key. key: message.type"),
        ({}, "x+message.type=FIFO", "kv string format wrong."),
    ],
)
def test_changes_that_are_not_allowed_are_rejected_with_the_message_of_java(
    current: dict[str, str] | None, text: str, message: str
) -> None:
    with pytest.raises(SystemFailure) as raised:
        alter(TOPIC_ATTRIBUTES, current, parse(text))

    assert raised.value.remark == message


def test_a_topic_with_batch_queues_cannot_be_created() -> None:
    with pytest.raises(InvalidParameter, match=r"queue\.type=BatchCQ is not supported: leave queue\.type out"):
        alter(TOPIC_ATTRIBUTES, None, parse("+queue.type=BatchCQ"))
