"""Looking at a record without decoding it."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from kerolox.message import names, properties
from kerolox.message.message import Message
from kerolox.message.peek import Peek, peek
from kerolox.message.record import encode
from kerolox.message.tags import java_hash
from tests.message.examples import HELLO, HELLO_RECORD, V6, mappings, messages


def test_a_peek_sees_what_a_dispatcher_needs() -> None:
    assert peek(HELLO_RECORD, check_crc=True) == Peek(
        size=125,
        topic="TopicTest",
        queue_id=2,
        queue_offset=7,
        physical_offset=4096,
        sys_flag=0,
        store_timestamp=1700000000005,
        properties=b"TAGS\x01TagA\x02WAIT\x01true\x02",
        tags_code=2598919,
        keys=b"",
        unique_key=b"",
    )


def test_keys_and_unique_key_are_found() -> None:
    text = properties.to_bytes({"KEYS": "a b", "UNIQ_KEY": "7F00", "TAGS": "中文"})

    found = peek(b"before" + encode(replace(HELLO, properties=text, born_host=V6)) + b"after", 6)

    assert (found.keys, found.unique_key, found.tags_code) == (b"a b", b"7F00", 646394)


@given(messages(), mappings)
def test_a_peek_agrees_with_the_message(message: Message, mapping: dict[str, str]) -> None:
    message.properties = properties.to_bytes(mapping)

    found = peek(memoryview(encode(message)), check_crc=True)

    assert found == Peek(
        size=len(encode(message)),
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        store_timestamp=message.store_timestamp,
        properties=message.properties,
        tags_code=java_hash(message.get(names.TAGS) or ""),
        keys=(message.get(names.KEYS) or "").encode(),
        unique_key=(message.get(names.UNIQ_KEY) or "").encode(),
    )
