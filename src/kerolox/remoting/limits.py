"""How much a peer may ask of a connection."""

from dataclasses import dataclass

from kerolox.wire.frames import FRAME_SIZE_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    frame_size_max: int = FRAME_SIZE_MAX
    # Requests whose answer is still being worked on; the next is answered SYSTEM_BUSY.
    requests_in_flight_max: int = 10_000
    # Closed after so long without a byte in either direction.
    idle_seconds: float = 120
    # Closed when a frame, once begun, is not complete after so long.
    partial_frame_seconds: float = 30
    # All incomplete frames of a server together; who goes beyond is closed.
    partial_bytes_max: int = 256 * 1024 * 1024
    # Above the first we stop reading requests until what we wrote is below the second.
    write_buffer_high: int = 256 * 1024
    write_buffer_low: int = 64 * 1024
