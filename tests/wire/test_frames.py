"""Framing of a byte stream split at any position."""

import itertools
import struct

import pytest

from kerolox.wire.frames import FRAME_SIZE_MAX, Frame, FrameReader


def framed(serialization: int, header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


STREAM = framed(0, b"{}", b"body") + framed(1, b"head") + framed(0, b"", b"only a body") + framed(0, b"")
FRAMES: list[Frame] = [(0, b"{}", b"body"), (1, b"head", b""), (0, b"", b"only a body"), (0, b"", b"")]


def test_several_frames_in_one_read_come_in_order() -> None:
    assert FrameReader().feed(STREAM) == FRAMES


def test_frames_that_come_byte_by_byte_are_whole() -> None:
    reader = FrameReader()

    frames = [frame for position in range(len(STREAM)) for frame in reader.feed(STREAM[position : position + 1])]

    assert frames == FRAMES
    assert reader.partial_size == 0


def test_a_stream_may_be_cut_at_any_two_places() -> None:
    for first, second in itertools.combinations(range(len(STREAM) + 1), 2):
        reader = FrameReader()

        frames = reader.feed(STREAM[:first]) + reader.feed(STREAM[first:second]) + reader.feed(STREAM[second:])

        assert frames == FRAMES, f"cut at {first} and {second}"
        assert reader.broken is None


def test_a_frame_is_returned_with_its_last_byte() -> None:
    reader = FrameReader()
    frame = framed(0, b"{}", b"body")

    assert reader.feed(frame[:-1]) == []
    assert reader.feed(frame[-1:]) == [(0, b"{}", b"body")]


def test_feeding_no_bytes_returns_no_frames() -> None:
    assert FrameReader().feed(b"") == []


def test_a_frame_does_not_alias_the_read_buffer() -> None:
    """The connection reuses its read buffer."""
    (frame,) = FrameReader().feed(framed(0, b"{}", b"body"))

    assert [type(part) for part in frame[1:]] == [bytes, bytes]


def test_the_frame_reader_accepts_any_serialization() -> None:
    assert FrameReader().feed(framed(255, b"h")) == [(255, b"h", b"")]


@pytest.mark.parametrize("announced", [9, 1000, FRAME_SIZE_MAX - 4])
def test_memory_is_held_only_for_bytes_that_have_arrived(announced: int) -> None:
    reader = FrameReader()

    reader.feed(struct.pack(">II", announced, 0))

    assert reader.partial_size == 8


def test_buffered_bytes_are_released_with_the_frame() -> None:
    reader = FrameReader()
    frame = framed(0, b"{}", bytes(1000))

    reader.feed(frame[:900])
    held = reader.partial_size
    reader.feed(frame[900:] + frame[:10])

    assert (held, reader.partial_size) == (900, 10)


@pytest.mark.parametrize(
    ("length", "mark", "reason"),
    [
        (FRAME_SIZE_MAX - 3, 0, "frame of 16777217 bytes, at most 16777216 allowed"),
        (0xFFFFFFFF, 0, "frame of 4294967299 bytes, at most 16777216 allowed"),
        (0, 0, "frame of length 0, at least 4 needed"),
        (3, 0, "frame of length 3, at least 4 needed"),
        (10, 7, "header of 7 bytes in a frame with room for 6"),
        (10, 0xFFFFFF, "header of 16777215 bytes in a frame with room for 6"),
        (4, 1 << 24 | 1, "header of 1 bytes in a frame with room for 0"),
    ],
)
def test_an_invalid_length_breaks_the_stream_after_the_frames_before_it(length: int, mark: int, reason: str) -> None:
    reader = FrameReader()

    frames = reader.feed(STREAM + struct.pack(">II", length, mark) + b"the rest")

    assert frames == FRAMES
    assert str(reader.broken) == reason


def test_an_invalid_header_length_is_found_with_the_eighth_byte() -> None:
    reader = FrameReader()
    prefix = struct.pack(">II", 0xFFFFFFFF, 0)

    reader.feed(prefix[:7])
    assert reader.broken is None

    reader.feed(prefix[7:])
    assert reader.broken is not None


def test_a_frame_may_be_as_long_as_the_bound_and_no_longer() -> None:
    reader = FrameReader(frame_size_max=20)

    assert reader.feed(framed(0, b"{}", bytes(10))) == [(0, b"{}", bytes(10))]
    assert reader.feed(framed(0, b"{}", bytes(11))) == []
    assert str(reader.broken) == "frame of 21 bytes, at most 20 allowed"


def test_a_large_frame_in_many_reads_is_joined_once() -> None:
    reader = FrameReader()
    body = bytes(range(256)) * 4096
    frame = framed(0, b"{}", body)

    frames = [out for start in range(0, len(frame), 16384) for out in reader.feed(frame[start : start + 16384])]

    assert frames == [(0, b"{}", body)]


def test_a_header_over_its_limit_breaks_the_stream_before_it_has_arrived() -> None:
    reader = FrameReader(header_size_max=10)

    assert reader.feed(framed(0, b"x" * 10, b"body")) == [(0, b"x" * 10, b"body")]
    assert reader.feed(framed(0, b"x" * 11)[:8]) == []
    assert str(reader.broken) == "header of 11 bytes exceeds the limit of 10 (frameHeaderBytesMax)"
