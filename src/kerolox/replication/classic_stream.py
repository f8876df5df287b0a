"""Bytes of RocketMQ's classic HA stream (HAConnection, HAClient). All integers are signed and big-endian.

    slave to master    int64 offset                             "I hold the log up to here"; repeated
    master to slave    int64 offset, int32 size, size bytes     the log from `offset` on; size 0 is a heartbeat

The first report also says where the master begins: at the reported offset, or, if it is 0, at its last file.

Slaves of our own send two things more, both of which a master of RocketMQ's takes without harm:

- Before the first report, in the same write, a negative number that identifies the process. Java takes only the last
  number of a read, and no negative one as the place to begin. It lets a master count slaves, not connections, when
  several slaves run on one host.
- An empty slave reports `WHOLE_LOG` instead of 0. A master of our own begins at its first file, so that an empty slave
  gets a full copy. A master of RocketMQ's begins at the second byte of the log; the first is the highest byte of the
  size of the first record, and therefore 0.
"""

import struct
from collections.abc import Iterator

from kerolox.errors import KeroloxError

# The report of an empty slave of our own. No record ends here, so no other slave reports it.
WHOLE_LOG = 1
# Java's slaves read a frame into a buffer of 4 MiB.
BODY_SIZE_MAX = 4 * 1024 * 1024 - 12

_REPORT = struct.Struct(">q")
_HEADER = struct.Struct(">qi")
_IDENTITY_MAX = 2**63


class StreamError(KeroloxError):
    """The other end of an HA stream breaks the protocol."""


def encode_report(offset: int) -> bytes:
    return _REPORT.pack(offset)


def encode_identity(number: int) -> bytes:
    """Encode a number from 0 to 2^63 - 1 that identifies a slave."""
    return _REPORT.pack(-1 - number % _IDENTITY_MAX)


def encode_header(offset: int, size: int) -> bytes:
    """Encode what precedes `size` bytes of the log in a frame."""
    return _HEADER.pack(offset, size)


class ReportParser:
    """Splits the bytes of a slave into numbers."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        return [number for (number,) in _REPORT.iter_unpack(data[:whole])]


class FrameParser:
    """Splits the bytes of a master into pieces of the log, which need not be whole frames."""

    def __init__(self) -> None:
        self._head = b""
        # Where the rest of the current body begins, and its size.
        self._offset = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each piece; no bytes for a heartbeat. StreamError if a size is invalid."""
        at = 0
        while at < len(data):
            if not self._left:
                part = data[at : at + _HEADER.size - len(self._head)]
                self._head += part
                at += len(part)
                if len(self._head) < _HEADER.size:
                    return
                self._offset, self._left = _HEADER.unpack(self._head)
                self._head = b""
                if self._offset < 0 or not 0 <= self._left <= BODY_SIZE_MAX:
                    raise StreamError(
                        f"a frame of {self._left} bytes at {self._offset} is invalid, the most is {BODY_SIZE_MAX}"
                    )
                if not self._left:
                    yield self._offset, b""
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            yield self._offset, piece
            self._offset += len(piece)
            self._left -= len(piece)
