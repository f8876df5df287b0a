"""Message: properties, keys and ids."""

from __future__ import annotations

from msgspec.structs import replace

from kerolox.message import properties
from kerolox.message.message import Message
from tests.message.examples import HELLO


def test_properties_are_parsed_once() -> None:
    message = replace(HELLO)

    assert message.parsed == {"TAGS": "TagA", "WAIT": "true"}
    assert message.parsed is message.parsed
    assert message.tags == "TagA"


def test_changed_properties_are_parsed_again() -> None:
    message = replace(HELLO)
    assert message.tags == "TagA"

    message.properties = b"TAGS\x01TagB\x02"

    assert message.tags == "TagB"
    assert replace(message, properties=b"").tags is None


def test_messages_are_equal_whether_or_not_properties_were_parsed() -> None:
    looked = replace(HELLO)
    assert looked.parsed

    assert looked == replace(HELLO)
    assert looked != replace(HELLO, queue_id=3)
    assert looked != "hello"


def test_keys_are_separated_by_spaces_and_empty_ones_dropped() -> None:
    assert Message("t", b"", properties.to_bytes({"KEYS": "a  b c "})).keys == ["a", "b", "c"]
    assert Message("t", b"").keys == []


def test_a_message_without_a_unique_key_has_its_offset_id_as_message_id() -> None:
    assert HELLO.message_id == HELLO.offset_id == "C0A8011400002A9F0000000000001000"
    assert replace(HELLO, properties=b"UNIQ_KEY\x017F00\x02").message_id == "7F00"


def test_the_crc_of_a_body_is_never_negative() -> None:
    crcs = {b"hello": 907060870, b"Hello RocketMQ": 1774740973, b"123456789": 1274296614, b"": 0}

    assert {body: Message("t", body).body_crc for body in crcs} == crcs
