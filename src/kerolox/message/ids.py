"""Message ids: offset id, unique id and recall handle (MessageDecoder, MessageClientIDSetter, RecallMessageHandle)."""

import base64
import binascii
import itertools
import os
import struct
from datetime import datetime, timedelta
from typing import NamedTuple

from kerolox.message.errors import IdError
from kerolox.message.hosts import IPV4_HOST_SIZE, IPV6_HOST_SIZE, Host
from kerolox.runtime.clock import Clock, SystemClock

_LONG = struct.Struct(">q")
_IPV4_UNIQUE_SIZE, _IPV6_UNIQUE_SIZE = 16, 28
# If the clock is set back by less than this before the start of the month, the time in the id is 0, as in Java.
_BACK_MILLIS_MAX = 1_000_000


def offset_id(store_host: Host, physical_offset: int) -> str:
    """Return the id made of broker address and physical offset: 32 hexadecimal digits, or 56 with IPv6."""
    return (store_host + _LONG.pack(physical_offset)).hex().upper()


def parse_offset_id(text: str) -> tuple[Host, int]:
    """Return broker address and physical offset; IdError if the text is not an offset id."""
    data = _bytes_of(text, IPV4_HOST_SIZE + 8, IPV6_HOST_SIZE + 8)
    return data[:-8], _LONG.unpack_from(data, len(data) - 8)[0]


class UniqueIds:
    """Generates the unique ids that producers give their messages; thread-safe.

    ip, pid (2 bytes), a number of the process (4), milliseconds since the start of the month (4), a counter (2).
    """

    def __init__(
        self, ip: bytes, *, pid: int | None = None, process_number: int | None = None, clock: Clock | None = None
    ) -> None:
        assert len(ip) in (4, 16)
        if pid is None:
            pid = os.getpid()
        if process_number is None:
            # Java uses the hash of a class loader; any number that two processes rarely share will do.
            process_number = int.from_bytes(os.urandom(4), "big")
        self._clock = clock or SystemClock()
        self._fixed = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{process_number & 0xFFFFFFFF:08X}"
        self._count = itertools.count()
        self._month = _month_around(self._clock.millis())

    def make(self) -> str:
        now = self._clock.millis()
        start, end = self._month
        if now >= end:
            self._month = start, end = _month_around(now)
        span = now - start
        if -_BACK_MILLIS_MAX < span < 0:
            span = 0
        return f"{self._fixed}{span & 0xFFFFFFFF:08X}{next(self._count) & 0xFFFF:04X}"


def born_millis(unique_id: str, now_millis: int) -> int:
    """Return the creation time of a unique id; correct if it is less than a month old and of this time zone."""
    data = _bytes_of(unique_id, _IPV4_UNIQUE_SIZE, _IPV6_UNIQUE_SIZE)
    span = int.from_bytes(data[-6:-2], "big")
    start, _ = _month_around(now_millis)
    if start + span >= now_millis:
        start, _ = _month_around(start - 1)
    return start + span


def _month_around(millis: int) -> tuple[int, int]:
    """Return the start of the month and of the next one, in local time as in Java."""
    first = datetime.fromtimestamp(millis / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp()) * 1000, int(following.timestamp()) * 1000


class RecallHandle(NamedTuple):
    """Identifies a timer message that has not been delivered yet, to recall it."""

    topic: str
    broker_name: str
    deliver_millis: str
    unique_id: str


_HANDLE_VERSION = "v1"


def encode_handle(handle: RecallHandle) -> str:
    return base64.urlsafe_b64encode(" ".join((_HANDLE_VERSION, *handle)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    try:
        # Java accepts it without padding, too.
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        words = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, ValueError) as error:
        raise IdError(f"{text[:200]!r} is not a recall handle: {error}") from error
    if len(words) < 5 or words[0] != _HANDLE_VERSION:
        raise IdError(f"{text[:200]!r} is not a recall handle of version {_HANDLE_VERSION}")
    return RecallHandle(*words[1:5])


def _bytes_of(text: str, *sizes: int) -> bytes:
    try:
        data = binascii.unhexlify(text)
    except ValueError as error:
        raise IdError(f"{text[:200]!r} is not a message id: {error}") from error
    if len(data) not in sizes:
        expected = " or ".join(str(2 * size) for size in sizes)
        raise IdError(f"{text[:200]!r} is not a message id: {len(text)} digits, expected {expected}")
    return data
