"""Every record written by Java brokers is decoded and encoded again, byte for byte."""

from __future__ import annotations

import importlib.util
import itertools
import time

import pytest

from kerolox.message import compression, hosts, ids, properties, property_names, sysflag
from kerolox.message.records.record import MAGIC_V1, MAGIC_V2, decode, decode_all, encode, size_and_magic, stamp
from kerolox.message.records.summary import peek
from kerolox.message.sysflag import CompressionType
from kerolox.message.tags import java_hash
from tests.golden.records import VERSIONS, GoldenRecord, load

GOLDENS = [(version, golden) for version in VERSIONS for golden in load(version)]
COMPRESSED = {"zlib": CompressionType.ZLIB, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}

each_record = pytest.mark.parametrize(
    "golden",
    [pytest.param(golden, id=f"{version}-{number}-{golden.case}") for number, (version, golden) in enumerate(GOLDENS)],
)
each_version = pytest.mark.parametrize("version", VERSIONS)


def found(version: str, case: str) -> list[bytes]:
    return [golden.record for golden in load(version) if golden.case == case]


def stage(golden: GoldenRecord) -> str:
    return golden.case.partition("/")[0]


@each_record
def test_encoding_a_decoded_record_gives_the_same_bytes(golden: GoldenRecord) -> None:
    assert encode(decode(golden.record, check_crc=True)) == golden.record


@each_record
def test_stamping_with_the_same_fields_changes_nothing(golden: GoldenRecord) -> None:
    message = decode(golden.record)
    record = bytearray(golden.record)
    stamp(record, 0, 0, 0)
    assert record != golden.record

    stamp(record, message.queue_offset, message.physical_offset, message.store_timestamp)

    assert record == golden.record


@each_record
def test_a_summary_agrees_with_the_message(golden: GoldenRecord) -> None:
    message = decode(golden.record)
    seen = peek(golden.record, check_crc=True)

    assert (seen.size, seen.topic, seen.queue_id) == (len(golden.record), message.topic, message.queue_id)
    assert (seen.queue_offset, seen.physical_offset) == (message.queue_offset, message.physical_offset)
    assert (seen.sys_flag, seen.store_timestamp) == (message.sys_flag, message.store_timestamp)
    assert seen.tags_code == java_hash(message.tags or "")
    assert seen.keys.decode().split() == message.keys
    assert seen.unique_key.decode() == (message.get(property_names.UNIQ_KEY) or "")


@each_record
def test_encoding_parsed_properties_gives_the_same_bytes(golden: GoldenRecord) -> None:
    """Except for the last separator, which some releases omit, and properties that occur twice in a batch."""
    message = decode(golden.record)
    assert message.parsed

    if message.properties.count(b"\x01") == len(message.parsed):
        assert properties.to_bytes(message.parsed).rstrip(b"\x02") == message.properties.rstrip(b"\x02")
    else:
        assert golden.case.partition("/")[2].startswith("batch")


@each_version
def test_a_log_of_adjacent_records_is_decoded(version: str) -> None:
    logged = [golden for golden in load(version) if "/encoded-" not in golden.case and stage(golden) != "store"]
    for _, part in itertools.groupby(logged, stage):
        messages = decode_all(b"".join(golden.record for golden in part), check_crc=True)
        offsets = [message.physical_offset for message in messages]
        sizes = [len(encode(message)) for message in messages]
        assert offsets == list(itertools.accumulate(sizes, initial=0))[:-1]


@each_version
@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_body_compressed_by_java_is_decompressed(version: str, kind: str) -> None:
    package = {"lz4": "lz4", "zstd": "zstandard"}.get(kind)
    if package and not importlib.util.find_spec(package):
        pytest.skip(f"{package} is not installed")
    (record,) = found(version, f"ipv4/{kind}")
    message = decode(record)

    assert sysflag.compression_type(message.sys_flag) is COMPRESSED[kind]
    assert compression.decompress(message.body, message.sys_flag, 1000) == b"again and again, " * 40


@each_version
def test_zlib_compresses_to_the_same_bytes_as_java(version: str) -> None:
    (record,) = found(version, "ipv4/zlib")

    assert compression.compress(b"again and again, " * 40) == decode(record).body


@each_version
def test_a_transaction_consists_of_a_half_message_and_the_message(version: str) -> None:
    half, message = (decode(record) for record in found(version, "ipv4/commit"))

    assert (half.topic, half.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", sysflag.NOT_TRANSACTION)
    assert (message.topic, message.sys_flag) == ("Records", sysflag.COMMIT)
    assert message.prepared_transaction_offset == half.physical_offset
    # 4.9 keeps all properties; 5.x removes the real topic and queue id.
    assert message.parsed == {
        name: value
        for name, value in half.parsed.items()
        if version < "5" or name not in (property_names.REAL_TOPIC, property_names.REAL_QID)
    }
    assert len(found(version, "ipv4/rollback")) == 1


@each_version
def test_a_retried_message_has_its_origin_message_id(version: str) -> None:
    first, waiting, retried, dead = (decode(record) for record in found(version, "ipv4/retry"))

    assert [message.reconsume_times for message in (first, waiting, retried, dead)] == [0, 1, 1, 2]
    assert (waiting.topic, retried.topic) == ("SCHEDULE_TOPIC_XXXX", "%RETRY%records_group")
    assert dead.topic == "%DLQ%records_group"
    for message in (waiting, retried, dead):
        assert message.get(property_names.ORIGIN_MESSAGE_ID) == first.offset_id
        assert message.message_id == first.message_id


@each_version
def test_the_creation_time_of_a_unique_id_precedes_the_send(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The records were written in this time zone.
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    born = [decode(record) for case in ("ipv4/plain", "ipv6/plain") for record in found(version, case)]

    spans = [
        message.born_timestamp - ids.born_millis(message.message_id, message.store_timestamp + 1) for message in born
    ]

    monkeypatch.undo()
    time.tzset()
    # The id is generated first; the route is requested before the message is sent.
    assert all(0 <= span < 10_000 for span in spans)


@each_version
def test_the_lengths_of_hosts_match_their_flags(version: str) -> None:
    for golden in load(version):
        message = decode(golden.record)
        assert (":" in hosts.unpack(message.born_host)[0]) == bool(message.sys_flag & sysflag.BORN_HOST_V6)
        assert (":" in hosts.unpack(message.store_host)[0]) == bool(message.sys_flag & sysflag.STORE_HOST_V6)
    assert {decode(golden.record).sys_flag & 0x30 for golden in load(version)} == {0, 0x10, 0x20, 0x30}


def test_only_a_long_topic_uses_magic_v2() -> None:
    for _, golden in GOLDENS:
        is_long = len(decode(golden.record).topic) > 127
        assert size_and_magic(golden.record)[1] == (MAGIC_V2 if is_long else MAGIC_V1)
    assert [len(decode(record).topic) for record in found("5.5.0", "store/long-topic-255")] == [255]
