"""Frames: splits a byte stream into frames (NettyDecoder).

size   field
4      length of all that follows
1      serialization of the header: 0 JSON, 1 ROCKETMQ (binary)
3      length of the header
n      header
rest   body, possibly empty
"""

import struct
from typing import TypeAlias

from kerolox.errors import ProtocolError

FRAME_SIZE_MAX = 16 * 1024 * 1024
PREFIX = struct.Struct(">II")
_unpack_prefix = PREFIX.unpack_from

# (serialization, header, body). A tuple, because it is created for every frame.
Frame: TypeAlias = tuple[int, bytes, bytes]


class FrameReader:
    """Splits a stream of bytes into frames, and keeps an incomplete frame until the rest arrives."""

    __slots__ = ("_partial", "_wanted_size", "broken", "frame_size_max", "header_size_max", "partial_size")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX, header_size_max: int = FRAME_SIZE_MAX) -> None:
        self.frame_size_max = frame_size_max
        self.header_size_max = header_size_max
        # Set when the stream is malformed; frames before that point are valid.
        self.broken: ProtocolError | None = None
        self._partial = bytearray()
        self._wanted_size = 0
        # The number of bytes of the incomplete frame.
        self.partial_size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Return every frame that `data` completes, in order."""
        if self.partial_size:
            # Memory grows only with the bytes that arrive, whatever length the prefix claims.
            self._partial += data
            self.partial_size += len(data)
            if self.partial_size < self._wanted_size:
                return []
            data = bytes(self._partial)
            self._partial, self.partial_size = bytearray(), 0
        frames: list[Frame] = []
        start, end, length_max, header_size_max = 0, len(data), self.frame_size_max - 4, self.header_size_max
        while end - start >= 8:
            length, mark = _unpack_prefix(data, start)
            header_size = mark & 0xFFFFFF
            # A length below 4 fails here, too: it leaves no room for the header length.
            if length > length_max or header_size > length - 4 or header_size > header_size_max:
                self.broken = self._error(length, header_size)
                return frames
            stop = start + 4 + length
            if stop > end:
                break
            body_start = start + 8 + header_size
            frames.append((mark >> 24, data[start + 8 : body_start], data[body_start:stop]))
            start = stop
        if start < end:
            self._partial += data[start:]
            self.partial_size = end - start
            self._wanted_size = 8 if end - start < 8 else 4 + _unpack_prefix(data, start)[0]
        return frames

    def clear(self) -> None:
        """Drop the incomplete frame and the error, if any; nothing more may be fed."""
        self._partial, self.partial_size, self.broken = bytearray(), 0, None

    def _error(self, length: int, header_size: int) -> ProtocolError:
        if length + 4 > self.frame_size_max:
            return ProtocolError(f"frame of {length + 4} bytes, at most {self.frame_size_max} allowed")
        if length < 4:
            return ProtocolError(f"frame of length {length}, at least 4 needed")
        if header_size > self.header_size_max:
            return ProtocolError(
                f"header of {header_size} bytes exceeds the limit of {self.header_size_max} (frameHeaderBytesMax)"
            )
        return ProtocolError(f"header of {header_size} bytes in a frame with room for {length - 4}")
