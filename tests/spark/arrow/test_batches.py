"""Records as batches: equal to the decoder for single records."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.message import hosts, ids, properties, property_names, sysflag
from kerolox.message.compression import compress
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.records import batch as inner
from kerolox.message.records.record import decode_all, encode
from kerolox.message.sysflag import CompressionType
from kerolox.spark.arrow.batches import Batcher, Origin, RecordFilter, batches
from kerolox.spark.schema import DAMAGE, columns_named, columns_of, topic_schema, with_columns
from tests.message.examples import HELLO, V6, messages
from tests.spark.conftest import environment

ALL = columns_of(topic_schema(include_properties=True))
LONG_RETRY = "%RETRY%" + "g" * 150


def test_every_column_equals_the_record_field() -> None:
    text = properties.to_bytes({"UNIQ_KEY": "7F00000100AA", "KEYS": "one two", "TAGS": "TagA", "colour": "red"})
    (row,) = rows([replace(HELLO, properties=text, reconsume_times=2)], origin=Origin("broker-a"))

    assert {name: value for name, value in row.items() if "Timestamp" not in name} == {
        "topic": "TopicTest",
        "brokerName": "broker-a",
        "queueId": 2,
        "queueOffset": 7,
        "commitLogOffset": 4096,
        "msgId": "7F00000100AA",
        "offsetMsgId": "C0A8011400002A9F0000000000001000",
        "keys": "one two",
        "tags": "TagA",
        "bornHost": "192.168.1.10:51234",
        "reconsumeTimes": 2,
        "properties": [("UNIQ_KEY", "7F00000100AA"), ("KEYS", "one two"), ("TAGS", "TagA"), ("colour", "red")],
        "body": b"hello",
    }
    assert row["bornTimestamp"].timestamp() == 1_700_000_000
    assert row["storeTimestamp"].timestamp() == 1_700_000_000.005


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(messages(), max_size=12))
def test_many_messages_equal_the_single_decoder(all_messages: list[Message]) -> None:
    plain = [
        replace(message, sys_flag=message.sys_flag & sysflag.HOSTS_MASK, queue_offset=message.queue_offset // 2)
        for message in all_messages
    ]
    data = b"".join(encode(message) for message in plain)

    found = [row for batch in batches([data], ALL, origin=ANY_OFFSET) for row in batch.to_pylist()]

    for row, message in zip(found, decode_all(data), strict=True):
        parsed = properties.parse(message.properties)
        offset_id = ids.offset_id(message.store_host, message.physical_offset)
        assert row["topic"] == message.topic
        assert row["body"] == message.body
        assert row["queueOffset"] == message.queue_offset
        assert row["bornHost"] == hosts.to_text(message.born_host)
        assert row["offsetMsgId"] == offset_id
        assert row["msgId"] == parsed.get(property_names.UNIQ_KEY, offset_id)
        assert row["keys"] == parsed.get(property_names.KEYS)
        assert row["tags"] == parsed.get(property_names.TAGS)
        assert dict(row["properties"]) == parsed


PIECES = st.sampled_from(
    [
        b"KEYS",
        b"TAGS",
        b"UNIQ_KEY",
        b"UNIQ_KEYS",
        b"\1",
        b"\2",
        b"v",
        "ü".encode(),
        b"\xff",
        b"",
        b"XTAGS",
        b"TAGS\1a\2",
    ]
)


@given(st.lists(st.lists(PIECES, max_size=9).map(b"".join), min_size=1, max_size=6))
def test_properties_equal_the_parser(texts: list[bytes]) -> None:
    found = rows([replace(HELLO, properties=text) for text in texts])

    for row, text in zip(found, texts, strict=True):
        parsed = properties.parse(text)
        assert row["keys"] == parsed.get(property_names.KEYS)
        assert row["tags"] == parsed.get(property_names.TAGS)
        assert row["msgId"] == parsed.get(property_names.UNIQ_KEY, row["offsetMsgId"])
        assert dict(row["properties"]) == parsed


def test_hosts_of_both_lengths_and_both_magics_stay_in_order() -> None:
    kinds = [
        HELLO,
        replace(HELLO, born_host=V6, sys_flag=0x10),
        replace(HELLO, topic=LONG_RETRY),
        replace(HELLO, store_host=V6, sys_flag=0x20),
        replace(HELLO, born_host=V6, store_host=V6, sys_flag=0x30),
    ] * 2
    numbered = [replace(message, queue_offset=offset) for offset, message in enumerate(kinds)]

    found = rows(numbered)

    assert [row["queueOffset"] for row in found] == list(range(10))
    assert [row["bornHost"] for row in found] == [hosts.to_text(message.born_host) for message in numbered]
    assert [row["topic"] for row in found] == [message.topic for message in numbered]
    assert [len(row["offsetMsgId"]) for row in found] == [32, 32, 32, 56, 56] * 2


@pytest.mark.parametrize("kind", CompressionType)
def test_compressed_bodies_are_decompressed(kind: CompressionType) -> None:
    body = b"a long body " * 500
    packed = replace(HELLO, body=compress(body, kind), sys_flag=sysflag.with_compression(0, kind))

    assert [row["body"] for row in rows([HELLO, packed, HELLO])] == [b"hello", body, b"hello"]


def test_a_body_that_cannot_be_decompressed_is_an_error_with_its_position() -> None:
    packed = replace(HELLO, body=b"no zlib at all", sys_flag=sysflag.COMPRESSED)

    with pytest.raises(RecordError, match=r"offset 7 of queue 2, commit log offset 4096, .* ZLIB body is damaged"):
        rows([packed])


def test_a_damaged_body_is_ignored_if_the_body_is_not_wanted() -> None:
    packed = replace(HELLO, body=b"no zlib at all", sys_flag=sysflag.COMPRESSED)

    (found,) = batches([bytes(encode(packed))], columns_named("queueOffset"))

    assert found.to_pylist() == [{"queueOffset": 7}]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_an_inner_batch_becomes_a_row_for_each_message(is_compressed: bool) -> None:
    parts = [inner.Part(b"one", properties.to_bytes({"KEYS": "1"})), inner.Part(b"two"), inner.Part(b"three")]
    body, flags = inner.encode(parts), sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    if is_compressed:
        body, flags = compress(body), sysflag.with_compression(flags, CompressionType.ZLIB)
    stored = replace(HELLO, body=body, sys_flag=flags)

    found = rows([replace(HELLO, queue_offset=6), stored, replace(HELLO, queue_offset=10)])

    assert [(row["queueOffset"], row["body"]) for row in found] == [
        (6, b"hello"),
        (7, b"one"),
        (8, b"two"),
        (9, b"three"),
        (10, b"hello"),
    ]
    assert found[1]["keys"] == "1"
    assert {row["commitLogOffset"] for row in found} == {4096}


def test_an_inner_batch_is_limited_to_the_wanted_offsets() -> None:
    body = inner.encode([inner.Part(b"one"), inner.Part(b"two"), inner.Part(b"three")])
    stored = replace(HELLO, body=body, sys_flag=sysflag.INNER_BATCH | sysflag.NEED_UNWRAP)

    assert [row["body"] for row in rows([stored], origin=Origin("a", 8, 9))] == [b"two"]


def test_only_wanted_offsets_are_returned() -> None:
    numbered = [replace(HELLO, queue_offset=offset) for offset in range(10)]

    assert [row["queueOffset"] for row in rows(numbered, origin=Origin("a", 3, 6))] == [3, 4, 5]


def test_only_wanted_tags_topics_and_times_are_returned() -> None:
    tagged = [replace(HELLO, properties=f"TAGS\1{tag}".encode()) if tag else BARE for tag in ("A", "B", "", "A")]
    topics = [replace(HELLO, topic=topic) for topic in ("a", "b", "a")]
    times = [replace(HELLO, store_timestamp=millis) for millis in (10, 20, 30)]

    assert [row["tags"] for row in rows(tagged, only=RecordFilter(tags=frozenset({"A"})))] == ["A", "A"]
    assert [row["topic"] for row in rows(topics, only=RecordFilter(topics=frozenset({"a", "c"})))] == ["a", "a"]
    assert [
        row["storeTimestamp"].microsecond for row in rows(times, only=RecordFilter(start_millis=20, end_millis=30))
    ] == [20_000]
    assert rows(times, only=RecordFilter(start_millis=31)) == []
    assert rows(times, only=RecordFilter(start_millis=31, topics=frozenset({"a"}), tags=frozenset({"A"}))) == []


def test_small_chunks_of_several_queues_become_one_batch() -> None:
    batcher = Batcher(columns_named("brokerName", "queueOffset"))
    chunks = {name: bytes(encode(replace(HELLO, queue_offset=3))) for name in ("a", "b")}

    early = [batch for name, chunk in chunks.items() for batch in batcher.add(chunk, Origin(name))]
    (batch,) = batcher.flush()

    assert early == []
    assert batch.to_pylist() == [{"brokerName": "a", "queueOffset": 3}, {"brokerName": "b", "queueOffset": 3}]
    assert list(batcher.flush()) == []


def test_each_queue_of_a_batch_has_its_own_bounds() -> None:
    batcher = Batcher(columns_named("brokerName", "queueOffset"))
    data = b"".join(encode(replace(HELLO, queue_offset=offset)) for offset in range(5))
    for origin in (Origin("a", 0, 2), Origin("b", 4, 9)):
        assert list(batcher.add(data, origin)) == []

    (batch,) = batcher.flush()

    assert [tuple(row.values()) for row in batch.to_pylist()] == [("a", 0), ("a", 1), ("b", 4)]


def test_messages_are_counted_by_origin_number() -> None:
    flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    three = replace(HELLO, queue_offset=5, body=inner.encode([inner.Part(b"x")] * 3), sys_flag=flags)
    stored = [replace(HELLO, queue_offset=4), replace(HELLO, queue_offset=4, born_host=V6, sys_flag=0x10), three]
    data = b"".join(encode(message) for message in stored)
    batcher = Batcher(columns_named("queueOffset"))

    list(batcher.add(data, Origin("a", 0, 7, 0)))
    list(batcher.add(data, Origin("a", 5, 6, 1)))
    list(batcher.add(data, Origin("a", 20, 30, 2)))
    list(batcher.flush())
    list(batcher.add(data, Origin("a", 0, 7, 0)))
    list(batcher.flush())

    assert batcher.counts == {0: 8, 1: 1, 2: 0}


@pytest.mark.parametrize(("rows_max", "bytes_max", "sizes"), [(4, 10**6, [4, 4, 2]), (100, 3 * 125, [3, 3, 3, 1])])
def test_a_batch_is_not_larger_than_allowed(rows_max: int, bytes_max: int, sizes: list[int]) -> None:
    data = b"".join(encode(replace(HELLO, queue_offset=offset)) for offset in range(10))

    found = list(batches([data], ALL, rows_max, bytes_max))

    assert [batch.num_rows for batch in found] == sizes
    assert [row["queueOffset"] for batch in found for row in batch.to_pylist()] == list(range(10))


def test_a_batch_is_not_larger_than_allowed_after_decompression() -> None:
    """Body of zeros shrink to a hundredth or less when compressed."""
    kilobyte = 1024
    plain, body = b"x" * kilobyte, bytes(100 * kilobyte)
    flags = sysflag.with_compression(0, CompressionType.ZLIB)
    small = replace(HELLO, body=compress(body), sys_flag=flags)
    parts = inner.encode([inner.Part(body)] * 2)
    inner_batch = replace(small, body=compress(parts), sys_flag=flags | sysflag.INNER_BATCH | sysflag.NEED_UNWRAP)
    kinds = [small, replace(small, born_host=V6, sys_flag=flags | 0x10), replace(HELLO, body=plain), small]
    numbered = [replace(message, queue_offset=offset) for offset, message in enumerate(kinds * 25)]
    numbered += [replace(inner_batch, queue_offset=offset) for offset in range(100, 120, 2)]
    data = b"".join(encode(message) for message in numbered)
    bytes_max = 800 * kilobyte

    found = list(batches([data], columns_named("queueOffset", "body"), bytes_max=bytes_max))

    assert [row["queueOffset"] for batch in found for row in batch.to_pylist()] == list(range(120))
    bodies = [row["body"] for batch in found for row in batch.to_pylist()]
    assert bodies == [body, body, plain, body] * 25 + [body] * 20
    assert all(batch.nbytes < bytes_max + 101 * kilobyte for batch in found)
    assert len(found) < 16


def test_compressed_bodies_that_are_not_wanted_do_not_split_batches() -> None:
    flags = sysflag.with_compression(0, CompressionType.ZLIB)
    data = bytes(encode(replace(HELLO, body=compress(bytes(10_000)), sys_flag=flags))) * 10

    assert len(list(batches([data], columns_named("queueOffset"), bytes_max=10_000))) == 1
    assert len(list(batches([data], columns_named("body"), bytes_max=10_000))) == 10


def test_damage_is_reported_in_the_row_of_the_body() -> None:
    flags = sysflag.with_compression(0, CompressionType.ZLIB)
    good = replace(HELLO, body=compress(bytes(1000)), sys_flag=flags)
    bad = replace(good, body=b"damaged")
    data = b"".join(encode(message) for message in (good, good, good, bad, HELLO, bad, good))

    found = list(batches([data], with_columns(columns_named("body"), DAMAGE), bytes_max=2000))

    assert [[row[DAMAGE] is None for row in batch.to_pylist()] for batch in found] == [
        [True, True],
        [True, False, True, False, True],
    ]


def test_batches_have_the_requested_schema() -> None:
    asked = columns_named("body", "topic", "storeTimestamp")

    (batch,) = batches([bytes(encode(HELLO))], asked)

    assert batch.schema == pa.schema(
        [("body", pa.binary()), ("topic", pa.string()), ("storeTimestamp", pa.timestamp("us", "UTC"))]
    )


def test_no_records_make_no_batch() -> None:
    assert list(batches([], ALL)) == []
    assert list(batches([b""], ALL)) == []


def test_truncated_records_and_wrong_lengths_are_errors() -> None:
    data = bytes(encode(HELLO))
    for size in range(1, len(data)):
        with pytest.raises(RecordError):
            list(batches([data[:size]], ALL))
    for at in (0, 4, 84, 93, 103):
        for value in (-1, 0, 1, 90, 0x7FFFFFFF):
            damaged = bytearray(data + data)
            struct.pack_into(">i", damaged, at, value)
            with pytest.raises(RecordError):
                list(batches([bytes(damaged)], ALL))


ANY_OFFSET = Origin("b", -(2**63), 2**63 - 1)
BARE = replace(HELLO, properties=b"")


def rows(all_messages: list[Message], **options: Any) -> list[dict[str, Any]]:
    data = b"".join(encode(message) for message in all_messages)
    return [row for batch in batches([data], ALL, **options) for row in batch.to_pylist()]


_FIRST_BATCH = """
import sys
from kerolox.spark.arrow.batches import RecordFilter, Origin, batches
from kerolox.spark.schema import topic_schema, columns_of
record = bytes.fromhex(sys.argv[1])
only = RecordFilter(tags=frozenset({"TagA"}))
found = batches([record] * 3, columns_of(topic_schema()), origin=Origin("a"), only=only)
print([batch.num_rows for batch in found], "pandas" in sys.modules)
"""


def test_decoding_does_not_import_pandas() -> None:
    """Arrow imports pandas if it is installed, which takes as long as reading a hundred thousand messages."""
    record = encode(replace(HELLO, properties=b"TAGS\x01TagA\x02KEYS\x01k\x02"))

    command = [sys.executable, "-c", _FIRST_BATCH, record.hex()]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100, check=False)

    assert (ran.stdout, ran.stderr) == ("[3] False\n", "")
