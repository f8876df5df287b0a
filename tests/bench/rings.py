"""Reads the requests of a ring with Kerolox's own decoder."""

from __future__ import annotations

from bench.frames import Ring
from kerolox.wire.command import Command, decode
from kerolox.wire.frames import FrameReader


def commands(ring: Ring) -> list[Command]:
    reader = FrameReader()
    found = [decode(frame) for frame in reader.feed(ring.stream)]
    assert (reader.broken, reader.partial_size) == (None, 0)
    return found
