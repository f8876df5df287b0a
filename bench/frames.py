"""Remoting frames, encoded before the clock starts and decoded after it stops."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# All opaques have the same number of digits, so that the frames of a ring have equal layouts.
OPAQUE_FIRST = 1_000_000
VERSION = 479  # V5_3_3


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded response: header members and raw body."""

    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.header["code"])

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Ring:
    """Frames that are sent in order, cyclically; each has its own opaque."""

    stream: bytes
    ends: tuple[int, ...]
    opaques: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.ends)

    def slice(self, first: int, count: int) -> bytes:
        """Return `count` frames from index `first`; they must not reach beyond the end of the ring."""
        start = self.ends[first - 1] if first else 0
        return self.stream[start : self.ends[first + count - 1]]


def encode(
    code: int,
    fields: Mapping[str, str],
    body: bytes = b"",
    *,
    opaque: int = OPAQUE_FIRST,
    flag: int = 0,
    version: int = VERSION,
) -> bytes:
    """Return a frame with a JSON header, its members in the order in which Java writes them."""
    members = {
        "code": code,
        "extFields": dict(fields),
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    header = json.dumps(members, separators=(",", ":")).encode()
    size = 4 + len(header) + len(body)
    return size.to_bytes(4) + len(header).to_bytes(4) + header + body


def encode_binary(
    code: int, fields: Mapping[str, str], body: bytes = b"", *, opaque: int = OPAQUE_FIRST, version: int = VERSION
) -> bytes:
    """Return a frame with a binary header (SerializeType.ROCKETMQ), as Java's clients write it if asked to."""
    ext = b"".join(
        struct.pack(f">H{len(name)}sI{len(value)}s", len(name), name, len(value), value)
        for name, value in ((name.encode(), value.encode()) for name, value in fields.items())
    )
    header = struct.pack(">hbhiiii", code, 0, version, opaque, 0, 0, len(ext)) + ext
    size = 4 + len(header) + len(body)
    return size.to_bytes(4) + b"\1" + len(header).to_bytes(3) + header + body


def decode(frame: bytes) -> Answer:
    """Decode the response in `frame`, a whole frame with its length."""
    size = int.from_bytes(frame[:4])
    if size != len(frame) - 4:
        raise ValueError(f"frame has {len(frame) - 4} bytes instead of {size}")
    if frame[4]:
        raise ValueError(f"header has serialize type {frame[4]}, expected JSON (0)")
    header_end = 8 + int.from_bytes(frame[5:8])
    return Answer(json.loads(frame[8:header_end]), frame[header_end:])


def ring(count: int, frame: Callable[[int, int], bytes]) -> Ring:
    """Return a ring of `count` frames; `frame(index, opaque)` encodes each."""
    opaques = range(OPAQUE_FIRST, OPAQUE_FIRST + count)
    return ring_of([frame(index, opaque) for index, opaque in enumerate(opaques)])


def ring_of(frames: list[bytes]) -> Ring:
    """Return a ring of frames whose opaques count up from OPAQUE_FIRST."""
    ends: list[int] = []
    end = 0
    for frame in frames:
        end += len(frame)
        ends.append(end)
    opaques = tuple(b"%d" % (OPAQUE_FIRST + index) for index in range(len(frames)))
    return Ring(b"".join(frames), tuple(ends), opaques)
