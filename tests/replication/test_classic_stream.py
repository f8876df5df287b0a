"""Bytes of the classic HA stream."""

import random
import struct

import pytest

from kerolox.replication.classic_stream import (
    BODY_SIZE_MAX,
    FrameParser,
    ReportParser,
    StreamError,
    encode_header,
    encode_identity,
    encode_report,
)


def test_reports_and_headers_have_javas_layout() -> None:
    assert encode_report(258) == bytes(6) + b"\1\2"
    assert encode_header(258, 772) == bytes(6) + b"\1\2" + bytes(2) + b"\3\4"


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1])
def test_an_identity_is_negative_so_that_java_does_not_take_it_for_an_offset(number: int) -> None:
    assert struct.unpack(">q", encode_identity(number))[0] < 0


@pytest.mark.parametrize("size", [1, 3, 8, 13, 100])
def test_reports_are_split_from_reads_of_any_size(size: int) -> None:
    data = b"".join(map(encode_report, range(10)))
    parser = ReportParser()
    assert [n for at in range(0, len(data), size) for n in parser.feed(data[at : at + size])] == list(range(10))


@pytest.mark.parametrize("size", [1, 3, 12, 13, 50, 1000])
def test_the_pieces_of_a_stream_are_its_bodies_in_order(size: int) -> None:
    chance = random.Random(size)
    stream, log, offset = b"", b"", 0
    for _ in range(10):
        body = chance.randbytes(chance.randrange(40))
        stream += encode_header(offset, len(body)) + body
        log += body
        offset += len(body)
    parser, found = FrameParser(), b""
    for at in range(0, len(stream), size):
        for place, piece in parser.feed(stream[at : at + size]):
            assert place == len(found)
            found += piece
    assert found == log


def test_a_heartbeat_is_an_empty_piece() -> None:
    assert list(FrameParser().feed(encode_header(77, 0))) == [(77, b"")]


@pytest.mark.parametrize(("offset", "size"), [(0, -1), (-1, 5), (0, BODY_SIZE_MAX + 1)])
def test_invalid_frames_are_refused(offset: int, size: int) -> None:
    with pytest.raises(StreamError, match="is invalid"):
        list(FrameParser().feed(encode_header(offset, size)))
