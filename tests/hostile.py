"""Frames that are as expensive to decode as an attacker can make them, and the time they block the event loop."""

import asyncio
import contextlib
import gc
import itertools
import socket
import struct
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from kerolox.remoting.address import parse_address
from kerolox.wire.command import BINARY, JSON, encode
from kerolox.wire.frames import FRAME_SIZE_MAX
from kerolox.wire.header import Request

# No request may keep other connections waiting for longer than this.
HOLD_SECONDS_MAX = 0.05
# Slow and busy machines: the time is CPU time of the loop's thread, but caches and frequency differ. Before the bounds
# that these tests guard, the worst frames blocked the loop for 0.7 to 9 seconds, so the margin is wide enough.
ALLOWANCE = 2
# A frame over the limit is sent again: the first use of a decoder or a garbage collection is not a property of the
# frame.
_ATTEMPTS = 3

_BODY_SIZE = FRAME_SIZE_MAX - 128 * 1024
# The largest header that a server accepts, less the bytes around the fields.
_FIELDS_SIZE = 64 * 1024 - 1024
_ANSWER_SECONDS = 30.0
# A request without a response this long after the response to a later one is a long poll. If it blocks the loop after
# all, that is counted with the next frame.
_WAITING_SECONDS = 0.3
_OPAQUE = 1
_UNKNOWN_CODE = 32_123
_UNKNOWN_OPAQUE = 77
_PREFIX = struct.Struct(">II")


class Probe:
    """Measures the longest iteration of the event loop, in CPU time of its thread."""

    def __init__(self) -> None:
        self._longest = 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        spinning = asyncio.create_task(self._spin())
        # Keep the objects of the test runner out of garbage collections, which would take longer than the server's own.
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
            spinning.cancel()
            await asyncio.gather(spinning, return_exceptions=True)

    async def _spin(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self._longest = max(self._longest, now - last)
            last = now

    async def hold_of(self, address: str, frame: bytes) -> float:
        """Return for how many seconds a frame blocks the loop of a server: the minimum of some attempts."""
        least = float("inf")
        for _ in range(_ATTEMPTS):
            self._longest = 0.0
            await asyncio.to_thread(_send, address, frame)
            await asyncio.sleep(0)
            least = min(least, self._longest)
            if least <= HOLD_SECONDS_MAX:
                break
        return least


def _send(address: str, frame: bytes) -> None:
    """Send a frame, then a request that every server refuses at once; return when both have responses.

    A server may also close the connection, or have a request wait for a message.
    """
    refused = encode(JSON, code=_UNKNOWN_CODE, opaque=_UNKNOWN_OPAQUE)
    wanted = {b'"opaque":%d,' % _UNKNOWN_OPAQUE}
    if frame[4] == JSON:
        wanted.add(b'"opaque":%d,' % _OPAQUE)
    received = b""
    with (
        socket.create_connection(parse_address(address), timeout=_ANSWER_SECONDS) as peer,
        contextlib.suppress(ConnectionError, TimeoutError),
    ):
        peer.sendall(frame + refused)
        while wanted:
            data = peer.recv(65536)
            if not data:
                return
            received = received[-100:] + data
            wanted = {text for text in wanted if text not in received}
            if b'"opaque":%d,' % _UNKNOWN_OPAQUE not in wanted:
                peer.settimeout(_WAITING_SECONDS)


async def slow(address: str, frames: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """Send frames to the server at `address`, which runs on this loop; return those that block the loop too long."""
    probe = Probe()
    found: dict[str, str] = {}
    async with probe.running():
        for name, data in frames:
            seconds = await probe.hold_of(address, data)
            if seconds > HOLD_SECONDS_MAX * ALLOWANCE:
                found[name] = f"{seconds * 1000:.0f} ms"
    return found


def frame(header: bytes, body: bytes = b"", serialization: int = JSON) -> bytes:
    return _PREFIX.pack(4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def usual_fields(request: type[Request[Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each field of a request: from `known` by name, else a default of its type."""
    return {
        field.encode_name: known.get(field.encode_name, _value(field.type)) for field in msgspec.structs.fields(request)
    }


def _value(kind: Any) -> Any:
    kinds = [kind, *getattr(kind, "__args__", ())]
    return "x" if str in kinds else False if bool in kinds else 0


def headers(request: type[Request[Any]], known: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield frames with the worst headers of a request that fit into the limit on headers, each with its name."""
    usual = usual_fields(request, known)
    numbers = b",".join(b'"%x":1' % number for number in range(_FIELDS_SIZE // 9))
    nulls = b",".join(b'"%x":null' % number for number in range(_FIELDS_SIZE // 12))
    depth = _FIELDS_SIZE // 2 - 100
    yield "many fields", frame(_json(request, numbers))
    yield "many nulls beside usual fields", frame(_json(request, _members(usual) + b"," + nulls))
    yield "many texts", frame(_json(request, numbers.replace(b":1", b':"1"')))
    yield "escaped names", frame(_json(request, b",".join([rb'"\u0041\u0042\u0043":1'] * (_FIELDS_SIZE // 24))))
    yield "deep nesting", frame(_json(request, b'"a":' + b"[" * depth + b"]" * depth))
    yield "many lists", frame(_json(request, b'"a":[' + b"[]," * (_FIELDS_SIZE // 3 - 100) + b"[]]"))
    for name, value in usual.items():
        if isinstance(value, str):
            for character in ("x", "|", "("):
                size = _FIELDS_SIZE // len(msgspec.json.encode(character)[1:-1]) - 1000
                fields = usual | {name: character * size}
                yield f"{name} is a long text of {character!r}", frame(_json(request, _members(fields)))
        elif not isinstance(value, bool):
            yield f"{name} is {2**31 - 1}", frame(_json(request, _members(usual | {name: 2**31 - 1})))
    many = b"".join(struct.pack(">hHi", 2, number, 1) + b"x" for number in range(_FIELDS_SIZE // 9) if number < 0x7F7F)
    yield "many binary fields", frame(_binary(request, many), b"", BINARY)
    letters = struct.pack(">hci", 1, b"a", 1) + b"x"
    yield "the same binary field", frame(_binary(request, letters * (_FIELDS_SIZE // len(letters))), b"", BINARY)


def over_the_limit(request: type[Request[Any]]) -> Iterator[tuple[str, bytes]]:
    """Yield frames whose headers are longer than a server accepts."""
    yield "900,000 JSON fields", frame(_json(request, _many_members()))
    letters = struct.pack(">hci", 1, b"a", 1) + b"x"
    yield "600,000 binary fields", frame(_binary(request, letters * 600_000), b"", BINARY)


@cache
def _many_members() -> bytes:
    return b",".join(b'"%x":1' % number for number in range(900_000))


def bodies() -> Iterator[tuple[str, bytes]]:
    """Yield bodies without a declared shape that fill a frame."""
    size = _BODY_SIZE
    yield "zeros", bytes(size)
    yield "a long text", b'"' + b"x" * size + b'"'
    yield "many objects", b"[" + b"{}," * (size // 3) + b"{}]"
    yield "a member with many numbers", b'{"x":[' + b"1," * (size // 2) + b"1]}"
    yield "deep objects", b'{"a":' * (size // 5)
    yield "unquoted keys", b"{" + b"1:1," * (size // 4)
    yield "many lines", b"a=b\n" * (size // 4)
    yield "compressed zeros", zlib.compress(bytes(64 * 1024 * 1024))
    # Within the limits of a body.
    yield "many texts", b'{"x":[' + b'"\\u0041",' * 90_000 + b"1]}"
    yield "deep lists", b'{"x":' + b"[" * 90_000
    yield "dialect", b"{x:[" + b"''" * (8 * 1024 - 20) + b"]}"
    yield "escaped dialect", b"{x:[" + b"'\\u0041'" * (2 * 1024 - 20) + b"]}"
    yield "object keys", b"{x:{" + b"{a:1}:1," * (2 * 1024 - 20) + b"}}"
    yield "references", b'{"x":[' + b'{"$ref":"$"},' * 1200 + b"1]}"
    yield "lines within the limit", b"a=b\n" * (8 * 1024)


def bodies_like(sample: Any, *, values_max: int = 99_000) -> Iterator[tuple[str, bytes]]:
    """Yield JSON bodies of the shape of a sample in which each list or table in turn is long.

    It is as long as fits into a frame, as a server accepts in a body (`values_max`), or of a thousand or ten thousand
    items, which is within most limits on lists.
    """
    for path in _containers(sample):
        what = ".".join(map(str, path)) or "body"
        yield f"{what} fills the frame", _grown(sample, path, _BODY_SIZE)
        yield f"{what} fills the limit of values", _grown(sample, path, 4 * 1024 * 1024 - 1024, values_max)
        for count in (1000, 10_000):
            yield f"{what} of {count} items", _grown(sample, path, 4 * 1024 * 1024 - 1024, values_max, count)


def _containers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    is_table = isinstance(value, list) or (isinstance(value, dict) and any(not key.isidentifier() for key in value))
    if value and is_table:
        yield path
    for key, item in items:
        yield from _containers(item, (*path, key))


# Placeholder that is replaced by the repeated items after encoding.
_MARK = "<many>"


def _grown(
    sample: Any, path: tuple[Any, ...], size_max: int, values_max: int = sys.maxsize, count: int = sys.maxsize
) -> bytes:
    document = msgspec.json.decode(msgspec.json.encode(sample))
    holder: Any = {"": document}
    key: Any = ""
    for step in path:
        holder, key = holder[key], step
    container = holder[key]
    holder[key] = _MARK
    around = msgspec.json.encode(document if path else _MARK)
    items: list[bytes] = []
    for item in islice(_items(container), count):
        size_max -= len(item) + 1
        values_max -= item.count(b",") + item.count(b"{") + item.count(b"[") + 1
        if size_max < len(around) or values_max < 100:
            break
        items.append(item)
    opening, closing = (b"[", b"]") if isinstance(container, list) else (b"{", b"}")
    return around.replace(b'"%b"' % _MARK.encode(), opening + b",".join(items) + closing)


def _items(container: Any) -> Iterator[bytes]:
    """Yield the first item repeatedly, each time under another name."""
    first = next(iter(container.values())) if isinstance(container, dict) else container[0]
    item = msgspec.json.encode(first)
    for number in itertools.count():
        name = b"%x" % number
        yield (b'"%b":' % name if isinstance(container, dict) else b"") + item.replace(b"NAME", name)


def request_frame(request: type[Request[Any]], known: Mapping[str, Any], body: bytes) -> bytes:
    """Return a frame with a usual header and a body."""
    return frame(_json(request, _members(usual_fields(request, known))), body)


def _json(request: type[Request[Any]], members: bytes) -> bytes:
    return b'{"code":%d,"extFields":{%b},"flag":0,"language":"JAVA","opaque":1,"version":513}' % (request.code, members)


def _members(fields: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(
        {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    )[1:-1]


def _binary(request: type[Request[Any]], fields: bytes) -> bytes:
    return struct.pack(">HBhiiii", request.code & 0xFFFF, 0, 435, 1, 0, 0, len(fields)) + fields
