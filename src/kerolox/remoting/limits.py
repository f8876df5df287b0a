"""Limits of one connection."""

from dataclasses import dataclass

from kerolox.wire.frames import FRAME_SIZE_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    frame_size_max: int = FRAME_SIZE_MAX
    # Servers set a lower limit (frameHeaderBytesMax). Clients need this much: the response to a batch names each
    # message in its header.
    header_size_max: int = FRAME_SIZE_MAX
    # Requests in progress; further ones get SYSTEM_BUSY.
    requests_in_flight_max: int = 10_000
    # The connection is closed after this time without a byte in either direction.
    idle_seconds: float = 120
    # The connection is closed if a frame is still incomplete after this time.
    partial_frame_seconds: float = 30
    # Reading stops while more than `high` bytes wait to be written, until fewer than `low` do.
    write_buffer_high: int = 256 * 1024
    write_buffer_low: int = 64 * 1024
