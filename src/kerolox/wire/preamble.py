"""Detects how a connection begins: a frame, a TLS handshake, a PROXY protocol header, or another protocol."""

import socket
import struct
from dataclasses import dataclass
from enum import Enum

from kerolox.errors import ProtocolError

_V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_V1_SIZE_MAX = 107
_V2_SIZE_MAX = 16 + 4096
_HTTP_METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"PATCH ", b"TRACE ", b"DELETE ", b"OPTIONS ", b"CONNECT ")
_HTTP2 = b"PRI * HTTP/2.0"


class Kind(Enum):
    FRAMES = "frames"
    TLS = "TLS"
    PROXY = "PROXY protocol"


@dataclass(frozen=True, slots=True)
class Preamble:
    kind: Kind
    # The size of a PROXY header; the bytes after it are inspected again.
    size: int = 0
    # The client address in a PROXY header; None if it has none.
    source: tuple[str, int] | None = None


def look(data: bytes) -> Preamble | None:
    """Return what `data` begins with, or None if more bytes are needed; ProtocolError for other protocols."""
    if not data:
        return None
    # The length of a frame of at most 16 MiB begins with byte 0 or 1, a TLS record with its type.
    if data[0] <= 1:
        return Preamble(Kind.FRAMES)
    if data[0] == 0x16:
        return Preamble(Kind.TLS)
    if _begins(data, b"PROXY "):
        return _proxy_v1(data)
    if _begins(data, _V2_SIGNATURE):
        return _proxy_v2(data)
    if _begins(data, _HTTP2):
        if len(data) < len(_HTTP2):
            return None
        raise ProtocolError("gRPC (HTTP/2) client; this port speaks RocketMQ's remoting protocol")
    if any(_begins(data, method) for method in _HTTP_METHODS):
        if b"\n" not in data and len(data) < 200:
            return None
        line = data.split(b"\n", 1)[0][:200].decode("latin-1").strip()
        raise ProtocolError(f"HTTP client that sent {line!r}; this port speaks RocketMQ's remoting protocol")
    raise ProtocolError(f"neither a frame nor TLS nor PROXY: begins with {data[:16]!r}")


def _begins(data: bytes, mark: bytes) -> bool:
    return data.startswith(mark) or mark.startswith(data)


def _proxy_v1(data: bytes) -> Preamble | None:
    end = data.find(b"\r\n", 0, _V1_SIZE_MAX)
    if end < 0:
        if len(data) < _V1_SIZE_MAX:
            return None
        raise ProtocolError("PROXY line without an end")
    words = data[:end].decode("latin-1").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return Preamble(Kind.PROXY, end + 2)
    families = {"TCP4": socket.AF_INET, "TCP6": socket.AF_INET6}
    if len(words) != 6 or words[1] not in families:
        raise ProtocolError(f"malformed PROXY line: {data[:end]!r}")
    try:
        socket.inet_pton(families[words[1]], words[2])
        port = int(words[4])
        if not 0 <= port <= 0xFFFF:
            raise ValueError(f"port {port}")
    except (OSError, ValueError) as error:
        raise ProtocolError(f"PROXY line with a bad address: {data[:end]!r}") from error
    return Preamble(Kind.PROXY, end + 2, (words[2], port))


def _proxy_v2(data: bytes) -> Preamble | None:
    if len(data) < 16:
        return None
    version_command, family, length = struct.unpack_from(">BBH", data, 12)
    size = 16 + length
    if version_command >> 4 != 2 or size > _V2_SIZE_MAX:
        raise ProtocolError(f"PROXY header of version {version_command >> 4} with {length} bytes")
    if len(data) < size:
        return None
    # Command 0 is LOCAL: a connection of the proxy itself, such as a health check.
    is_proxied = version_command & 0xF == 1
    if is_proxied and family >> 4 == 1 and length >= 12:
        return Preamble(Kind.PROXY, size, (socket.inet_ntoa(data[16:20]), struct.unpack_from(">H", data, 24)[0]))
    if is_proxied and family >> 4 == 2 and length >= 36:
        source = socket.inet_ntop(socket.AF_INET6, data[16:32])
        return Preamble(Kind.PROXY, size, (source, struct.unpack_from(">H", data, 48)[0]))
    return Preamble(Kind.PROXY, size)
