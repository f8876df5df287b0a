"""Record summaries, read without decoding the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.message import properties, property_names
from kerolox.message.message import Message
from kerolox.message.records.record import encode
from kerolox.message.records.summary import RecordSummary, peek, peek_run, properties_of
from kerolox.message.tags import java_hash
from tests.message.examples import HELLO, HELLO_RECORD, V6, mappings, messages


def test_a_summary_has_the_fields_that_dispatching_needs() -> None:
    assert peek(HELLO_RECORD, check_crc=True) == RecordSummary(
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
        tag=b"TagA",
    )


def test_keys_and_unique_key_are_found() -> None:
    text = properties.to_bytes({"KEYS": "a b", "UNIQ_KEY": "7F00", "TAGS": "中文"})

    found = peek(b"before" + encode(replace(HELLO, properties=text, born_host=V6)) + b"after", 6)

    assert (found.keys, found.unique_key, found.tags_code) == (b"a b", b"7F00", 646394)


@given(messages(), mappings)
def test_a_summary_agrees_with_the_message(message: Message, mapping: dict[str, str]) -> None:
    message.properties = properties.to_bytes(mapping)

    found = peek(memoryview(encode(message)), check_crc=True)

    assert found == RecordSummary(
        size=len(encode(message)),
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        store_timestamp=message.store_timestamp,
        properties=message.properties,
        tags_code=java_hash(message.get(property_names.TAGS) or ""),
        keys=(message.get(property_names.KEYS) or "").encode(),
        unique_key=(message.get(property_names.UNIQ_KEY) or "").encode(),
        tag=(message.get(property_names.TAGS) or "").encode(),
    )


def run_of(*made: Message) -> bytes:
    """Return adjacent records whose physical offsets begin at 5000."""
    records = b""
    for message in made:
        records += encode(replace(message, physical_offset=5000 + len(records)))
    return records


@given(st.lists(st.tuples(messages(), mappings), max_size=4))
def test_a_run_equals_single_summaries_up_to_the_first_unusual_record(
    made: list[tuple[Message, dict[str, str]]],
) -> None:
    for message, mapping in made:
        message.properties = properties.to_bytes(mapping)
    buffer = b"before" + run_of(*[message for message, _ in made]) + b"after"

    found = peek_run(buffer, 6, 5000, check_crc=True)

    at = 6
    for each in found:
        assert each == peek(buffer, at, check_crc=True)
        at += each.size
    assert len(found) == len(made) or not is_usual(made[len(found)][0])


def is_usual(message: Message) -> bool:
    size = len(message.topic.encode())
    return 0 < size <= 127 and len(message.born_host) == len(message.store_host) == 8 and "\0" not in message.topic


def test_a_run_of_usual_records_is_read_completely() -> None:
    buffer = run_of(*[HELLO] * 50)

    assert [each.physical_offset for each in peek_run(buffer, 0, 5000, check_crc=True)] == list(range(5000, 11250, 125))
    assert len(peek_run(buffer[:-1], 0, 5000)) == 49
    assert peek_run(buffer, 0, 5001) == []


@pytest.mark.parametrize("last", ["TAGS", "KEYS", "UNIQ_KEY"])
@pytest.mark.parametrize(
    "text", ["{0}\x01value", "{0}\x01a\x02{0}\x01", "{0}\x01a\x02X{0}\x01b\x02", "{0}\x01\x02", "b={0}\x01c"]
)
def test_a_run_finds_unusual_properties_as_a_single_summary_does(last: str, text: str) -> None:
    record = run_of(replace(HELLO, properties=text.format(last).encode()))

    assert peek_run(record, 0, 5000) == [peek(record)]


def test_a_run_accepts_no_flipped_byte_that_a_single_summary_rejects() -> None:
    good = run_of(HELLO, HELLO, HELLO)
    for at in range(125, 250):
        for bit in (0x01, 0x10, 0x80):
            damaged = bytearray(good)
            damaged[at] ^= bit

            found = peek_run(bytes(damaged), 0, 5000, check_crc=True)

            assert found[0] == peek(good)
            if len(found) > 1:
                assert found[1] == peek(damaged, 125, check_crc=True)


def test_a_torn_record_is_not_in_a_run() -> None:
    text = properties.to_bytes({"a": "b" * 2000})
    good = run_of(replace(HELLO, properties=text))
    hole = 5632 - 5000

    assert len(peek_run(good, 0, 5000)) == 1
    assert peek_run(good[:-3] + bytes(3), 0, 5000) == []
    assert peek_run(good[:hole] + bytes(512) + good[hole + 512 :], 0, 5000) == []


@given(messages())
def test_properties_are_found_in_records_of_all_layouts(message: Message) -> None:
    record = bytes(encode(message))

    assert properties_of(record) == peek(record).properties
