"""Registrations, compressed and plain, and hostile ones."""

import struct
import zlib

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire import command
from kerolox.wire.bodies import registration
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, crc32, decompress
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.frames import FrameReader
from kerolox.wire.headers.namesrv import RegisterBroker
from tests.golden.recordings import Direction, load

V4, V5 = 407, 513


def config(
    name: str, read: int, write: int, perm: int, filter_type: str, attributes: dict[str, str] | None
) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=read,
        write_queue_nums=write,
        perm=perm,
        topic_filter_type=filter_type,
        attributes=attributes,
    )


STATIC = TopicQueueMappingInfo("T", "__global__", 4, "broker-a", 7, False, {0: 0, 1: 1})

BODY = RegisterBrokerBody(
    ["10.0.0.5:30001"],
    TopicConfigTable(
        DataVersion(3, 1, 1_700_000_000_000),
        {
            "T": config("T", 4, 5, 6, "SINGLE_TAG", {"message.type": "FIFO", "a b": "c d"}),
            "тема": config("тема", 1, 1, 7, "MULTI_TAG", {}),
        },
        topic_queue_mapping_info_map={"T": STATIC},
    ),
)

# Pieces of a compressed registration, for assembling invalid ones.
VERSION = b'{"counter":3,"stateVersion":0,"timestamp":1}'


def sized(piece: bytes) -> bytes:
    return struct.pack(">i", len(piece)) + piece


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def inflated(*pieces: bytes) -> bytes:
    return zlib.compress(b"".join(pieces))


def recorded(version: str) -> command.Command:
    (frame,) = (
        recording.frame
        for recording in load(version)
        if recording.case == "json/register-compressed" and recording.direction is Direction.REQUEST
    )
    return command.decode(FrameReader().feed(frame)[0])


def test_the_compressed_form_carries_everything_but_flags_and_order() -> None:
    assert decompress(compress(BODY, V5), V5) == BODY


def test_before_5_0_there_are_no_attributes_and_no_mappings() -> None:
    old = decompress(compress(BODY, V4), V4).topic_config_serialize_wrapper

    assert old.topic_queue_mapping_info_map is None
    assert [topic.attributes for topic in old.topic_config_table.values()] == [None, None]


def test_a_new_server_reads_what_an_old_broker_compressed_under_a_new_number() -> None:
    """5.x brokers up to 5.0.0 wrote no mappings; the stream simply ends."""
    assert decompress(compress(BODY, V4), V5).topic_config_serialize_wrapper.topic_queue_mapping_info_map is None


def test_compression_gives_javas_bytes() -> None:
    java = recorded("5.5.0")

    assert compress(decompress(java.body, java.version), java.version) == java.body


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_compression_level_is_javas(version: str) -> None:
    java = recorded(version)

    assert zlib.compress(zlib.decompress(java.body), 9) == java.body
    assert list(decompress(java.body, java.version).topic_config_serialize_wrapper.topic_config_table) == [
        "OnlyC",
        "Shared",
    ]


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_checksum_is_the_one_java_sends(version: str) -> None:
    java = recorded(version)

    assert RegisterBroker.decode(java.ext).body_crc32 == crc32(java.body)


def test_the_checksum_has_31_bits() -> None:
    assert zlib.crc32(b"a") > 0x7FFFFFFF
    assert crc32(b"a") == zlib.crc32(b"a") - 0x80000000


def test_the_plain_form_is_read_and_written() -> None:
    assert RegisterBrokerBody.decode(BODY.encode()) == BODY


def test_an_empty_registration_has_no_topics() -> None:
    assert RegisterBrokerBody.decode(b"{}") == RegisterBrokerBody()


def test_a_decompression_bomb_is_refused_before_it_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "INFLATED_SIZE_MAX", 1000)
    bomb = zlib.compress(bytes(10_000_000), 9)

    with pytest.raises(ProtocolError, match="registration inflates to more than 1000 bytes"):
        decompress(bomb, V5)


@pytest.mark.parametrize("data", [b"", b"\x00", b"{}", b"x\xda", b"not zlib at all"])
def test_data_that_is_not_zlib_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="registration"):
        decompress(data, V5)


def test_a_stream_cut_anywhere_is_refused() -> None:
    """Even if only the checksum is missing: the data before it is unverified."""
    whole = compress(BODY, V5)

    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            decompress(whole[:size], V5)


def test_a_plain_text_cut_anywhere_is_refused() -> None:
    plain = zlib.decompress(compress(BODY, V4))

    for size in range(len(plain)):
        with pytest.raises(ProtocolError):
            decompress(zlib.compress(plain[:size], 1), V4)


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1, 100_000])
@pytest.mark.parametrize(
    "pieces",
    [(), (sized(VERSION),), (sized(VERSION), number(0)), (sized(VERSION), number(0), sized(b"[]"))],
    ids=["version", "topics", "filter servers", "mappings"],
)
def test_a_count_or_size_beyond_the_data_is_refused(pieces: tuple[bytes, ...], count: int) -> None:
    with pytest.raises(ProtocolError, match=f"{count} announced, 1 bytes left"):
        decompress(inflated(*pieces, number(count), b"x"), V5)


@pytest.mark.parametrize(
    "topic",
    [b"", b"T", b"T 1 1 6", b"T one 1 6 SINGLE_TAG", b"\xff 1 1 6 SINGLE_TAG", b"T 1 1 6 SINGLE_TAG {", b"T  1 1 6 X"],
)
def test_an_invalid_topic_is_refused(topic: bytes) -> None:
    with pytest.raises(ProtocolError):
        decompress(inflated(sized(VERSION), number(1), sized(topic), sized(b"[]")), V5)


@pytest.mark.parametrize(
    ("topic", "attributes"),
    [
        (b"T 4 5 6 SINGLE_TAG", None),
        (b"T 4 5 6 SINGLE_TAG ", None),
        (b"T 4 5 6 SINGLE_TAG {}", {}),
        (b'T 4 5 6 SINGLE_TAG {"a b":"c d"}', {"a b": "c d"}),
        (b"T 4 5 6 SINGLE_TAG {a:'b'}", {"a": "b"}),
    ],
)
def test_a_topic_may_have_attributes(topic: bytes, attributes: dict[str, str] | None) -> None:
    body = decompress(inflated(sized(VERSION), number(1), sized(topic), sized(b"")), V5)

    assert body.topic_config_serialize_wrapper.topic_config_table == {
        "T": config("T", 4, 5, 6, "SINGLE_TAG", attributes)
    }
    assert body.filter_server_list == []
