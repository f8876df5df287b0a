"""Protocol detection by the first bytes of a connection."""

import socket
import struct

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire.preamble import Kind, Preamble, look

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def proxy_v2(command: int, family: int, addresses: bytes, *, version: int = 2) -> bytes:
    return SIGNATURE + struct.pack(">BBH", version << 4 | command, family, len(addresses)) + addresses


IPV4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.8") + struct.pack(">HH", 5555, 9876)
IPV6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::8")
    + struct.pack(">HH", 5555, 9876)
)


@pytest.mark.parametrize("data", [b"\x00", b"\x01\x00\x00\x00", b"\x00\x00\x00\x62\x00"])
def test_a_frame_begins_with_the_high_byte_of_a_small_length(data: bytes) -> None:
    assert look(data) == Preamble(Kind.FRAMES)


def test_a_tls_handshake_begins_with_its_record_type() -> None:
    assert look(b"\x16\x03\x01") == Preamble(Kind.TLS)


def test_no_bytes_leave_the_protocol_undecided() -> None:
    assert look(b"") is None


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 5555 9876\r\n", ("192.0.2.7", 5555)),
        (b"PROXY TCP6 2001:db8::7 2001:db8::8 5555 9876\r\n", ("2001:db8::7", 5555)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ],
)
def test_a_proxy_v1_line_gives_the_source_address(line: bytes, source: tuple[str, int] | None) -> None:
    assert look(line + b"\x00\x00") == Preamble(Kind.PROXY, len(line), source)


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (proxy_v2(1, 0x11, IPV4), ("192.0.2.7", 5555)),
        (proxy_v2(1, 0x21, IPV6), ("2001:db8::7", 5555)),
        (proxy_v2(1, 0x11, IPV4 + b"\x04\x00\x01x"), ("192.0.2.7", 5555)),
        (proxy_v2(0, 0x11, IPV4), None),
        (proxy_v2(0, 0x00, b""), None),
        (proxy_v2(1, 0x31, bytes(216)), None),
        (proxy_v2(1, 0x11, IPV4[:8]), None),
        (proxy_v2(1, 0x21, IPV6[:20]), None),
    ],
    ids=["TCP4", "TCP6", "more after the addresses", "health check", "local", "unix", "too short", "too short for 6"],
)
def test_a_proxy_v2_header_gives_the_source_address(header: bytes, source: tuple[str, int] | None) -> None:
    assert look(header + b"\x00\x00") == Preamble(Kind.PROXY, len(header), source)


@pytest.mark.parametrize(
    "whole",
    [
        b"PROXY TCP4 192.0.2.7 192.0.2.8 5555 9876\r\n",
        proxy_v2(1, 0x11, IPV4),
        proxy_v2(1, 0x21, IPV6),
    ],
    ids=["line", "binary", "binary, IPv6"],
)
def test_a_header_that_comes_in_pieces_is_waited_for(whole: bytes) -> None:
    assert [look(whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    assert look(whole) is not None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP client that sent 'GET / HTTP/1.1'"),
        (b"POST /" + b"x" * 200, "HTTP client that sent 'POST /xxx"),
        (b"PRI * HTTP/2.0\r\n", "gRPC"),
        (b"SSH-2.0-OpenSSH", "neither a frame nor TLS nor PROXY: begins with b'SSH-2.0-OpenSSH'"),
        (b"\x02", "neither a frame"),
        (b"PROXX", "neither a frame"),
        (b"\r\n\r\n\x00\r\nQUIX", "neither a frame"),
        (b"PROXY " + b"x" * 101, "PROXY line without an end"),
        (b"PROXY\x20\r\n", "malformed PROXY line"),
        (b"PROXY TCP4 192.0.2.7\r\n", "malformed PROXY line"),
        (b"PROXY UDP4 192.0.2.7 192.0.2.8 1 2\r\n", "malformed PROXY line"),
        (b"PROXY TCP4 192.0.2.7.9 192.0.2.8 1 2\r\n", "PROXY line with a bad address"),
        (b"PROXY TCP4 2001:db8::7 192.0.2.8 1 2\r\n", "PROXY line with a bad address"),
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 x 2\r\n", "PROXY line with a bad address"),
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 65536 2\r\n", "PROXY line with a bad address"),
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 -1 2\r\n", "PROXY line with a bad address"),
        (b"PROXY TCP4 192.0.2\x00.7 192.0.2.8 1 2\r\n", "PROXY line with a bad address"),
        (proxy_v2(1, 0x11, IPV4, version=1), "PROXY header of version 1"),
        (SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 4097), "PROXY header of version 2 with 4097 bytes"),
    ],
)
def test_other_protocols_are_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        look(data)

    assert reason in str(raised.value)


@pytest.mark.parametrize("data", [b"P", b"PR", b"PRI", b"PU", b"G", b"GET /index", b"DELETE", b"\r", b"\r\n\r\n"])
def test_an_undecided_prefix_waits_for_more_bytes(data: bytes) -> None:
    assert look(data) is None


def test_most_first_bytes_are_refused_at_once() -> None:
    known = {0, 1, 0x16, *b"\rPGHTDOC"}

    for first in set(range(256)) - known:
        with pytest.raises(ProtocolError, match="neither a frame nor TLS nor PROXY"):
            look(bytes([first]))
    for first in known:
        look(bytes([first]))
