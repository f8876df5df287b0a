"""Attributes of topics, as mqadmin changes them."""

import pytest

from kerolox.broker.attributes import TOPIC_ATTRIBUTES, alter, parse
from kerolox.errors import SystemFailure


def test_a_text_is_changes_with_their_signs() -> None:
    assert parse("+message.type=FIFO,-reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse("") == parse(None) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("+a=1,+a=2", "key duplication: +a"),
    ],
)
def test_what_is_no_change_is_refused_in_the_words_of_the_original(text: str, complaint: str) -> None:
    with pytest.raises(SystemFailure) as refused:
        parse(text)

    assert refused.value.remark == complaint


def test_a_new_topic_takes_them_and_a_known_one_keeps_what_does_not_change() -> None:
    made = alter(TOPIC_ATTRIBUTES, None, parse("+message.type=FIFO,+queue.type=SimpleCQ,+reserve.time=-1"))

    changed = alter(TOPIC_ATTRIBUTES, made, parse("+message.type=NORMAL,-reserve.time"))

    assert changed == {"message.type": "NORMAL", "queue.type": "SimpleCQ"}
    assert made["message.type"] == "FIFO"


@pytest.mark.parametrize(
    ("current", "text", "complaint"),
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
def test_what_cannot_be_is_refused_in_the_words_of_the_original(
    current: dict[str, str] | None, text: str, complaint: str
) -> None:
    with pytest.raises(SystemFailure) as refused:
        alter(TOPIC_ATTRIBUTES, current, parse(text))

    assert refused.value.remark == complaint
