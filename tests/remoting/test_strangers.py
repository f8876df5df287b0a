"""What comes before the first frame: PROXY headers, other protocols, and garbage."""

import asyncio
import ipaddress
import struct

import pytest

from kerolox.remoting.client import Client
from kerolox.remoting.server import Server
from tests.remoting.support import Echo, Peer, ask, complaints, get, until


def framed(header: bytes) -> bytes:
    return struct.pack(">II", 4 + len(header), len(header)) + header


def proxy_v2(*, command: int = 1, family: int = 1, addresses: bytes = b"") -> bytes:
    signature = b"\r\n\r\n\x00\r\nQUIT\n"
    return signature + struct.pack(">BBH", 0x20 | command, family << 4 | 1, len(addresses)) + addresses


TCP4 = b"".join(ipaddress.ip_address(host).packed for host in ("203.0.113.9", "127.0.0.1")) + struct.pack(
    ">HH", 5555, 9876
)
TCP6 = b"".join(ipaddress.ip_address(host).packed for host in ("2001:db8::9", "::1")) + struct.pack(">HH", 5555, 9876)

SPEAKING_FOR_SOMEBODY = {
    "v1 TCP4": (b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n", "203.0.113.9:5555"),
    "v1 TCP6": (b"PROXY TCP6 2001:db8::9 ::1 5555 9876\r\n", "[2001:db8::9]:5555"),
    "v2 TCP4": (proxy_v2(addresses=TCP4), "203.0.113.9:5555"),
    "v2 TCP6": (proxy_v2(family=2, addresses=TCP6), "[2001:db8::9]:5555"),
    "v2 TCP4 with more": (proxy_v2(addresses=TCP4 + bytes(100)), "203.0.113.9:5555"),
}
SPEAKING_FOR_NOBODY = {
    "v1 UNKNOWN": b"PROXY UNKNOWN\r\n",
    "v1 UNKNOWN with more": b"PROXY UNKNOWN ffff::1 ::1 1 2\r\n",
    "v2 LOCAL": proxy_v2(command=0, family=0),
    "v2 without addresses": proxy_v2(family=0),
}
HEADERS = {name: header for name, (header, _) in SPEAKING_FOR_SOMEBODY.items()} | SPEAKING_FOR_NOBODY


@pytest.mark.parametrize(("header", "source"), SPEAKING_FOR_SOMEBODY.values(), ids=SPEAKING_FOR_SOMEBODY)
async def test_a_proxy_header_says_whom_it_speaks_for(server: Server, echo: Echo, header: bytes, source: str) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(header + ask())

        assert (await peer.answer()).opaque == 7
    assert echo.remotes == {source}


@pytest.mark.parametrize("header", SPEAKING_FOR_NOBODY.values(), ids=SPEAKING_FOR_NOBODY)
async def test_a_proxy_that_speaks_for_nobody_is_the_peer_itself(server: Server, echo: Echo, header: bytes) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(header + ask())

        assert (await peer.answer()).opaque == 7
        assert echo.remotes == {peer.name}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
async def test_a_proxy_header_may_come_byte_by_byte(server: Server, header: bytes) -> None:
    async with await Peer.to(server.address) as peer:
        for byte in header + ask():
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

        assert (await peer.answer()).opaque == 7


async def test_a_refusal_after_a_proxy_header_names_whom_it_spoke_for(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n" + b"\xff" * 8)

        assert await peer.rest() == b""
    assert complaints(caplog)[0].startswith("closed the connection from 203.0.113.9:5555: ")


REFUSED = {
    "second PROXY header": (b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n", "a second PROXY header"),
    "second PROXY header, v2": (proxy_v2(command=0) * 2, "a second PROXY header"),
    "PROXY line with a bad address": (b"PROXY TCP4 nowhere 127.0.0.1 1 2\r\n", "a PROXY line with a bad address"),
    "PROXY line with a bad port": (b"PROXY TCP4 127.0.0.1 127.0.0.1 x 2\r\n", "a PROXY line with a bad address"),
    "PROXY line of another family": (b"PROXY UDP4 127.0.0.1 127.0.0.1 1 2\r\n", "a PROXY line that cannot be read"),
    "PROXY line without an end": (b"PROXY TCP4 " + b"1" * 200, "a PROXY line without an end"),
    "PROXY v2 that lies": (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff", "a PROXY header of version 2 with 65535 bytes"),
    "PROXY v3": (b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x00", "a PROXY header of version 3 with 0 bytes"),
    "HTTP": (
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "an HTTP client that tried 'GET /health HTTP/1.1'; this port speaks RocketMQ's remoting protocol",
    ),
    "HTTP with a long line": (b"POST /" + b"x" * 300, "an HTTP client that tried 'POST /xxx"),
    "gRPC": (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a gRPC (HTTP/2) client; this port speaks RocketMQ's remoting protocol",
    ),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "neither a frame nor TLS nor PROXY: begins with b'SSH-2.0-OpenSSH_'"),
    "garbage": (b"\xde\xad\xbe\xef" * 4, "neither a frame nor TLS nor PROXY: begins with"),
    "frame that is too long": (b"\x01\x00\x00\x01" + bytes(20), "frame of 16777221 bytes, at most 16777216 allowed"),
    "frame that is too short": (bytes(20), "frame of length 0, at least 4 needed"),
    "header longer than its frame": (b"\x00\x00\x00\x10\x00\x00\x00\x20" + bytes(12), "header of 32 bytes in a frame"),
    "header that is no JSON": (b"\x00\x00\x00\x08\x00\x00\x00\x04nope", "header cannot be read"),
    "half a character": (framed(b'{"code":101,"opaque":7,"extFields":{"key":"\\ud800"}}'), "header cannot be read"),
    "unknown serialization": (b"\x00\x00\x00\x08\x09\x00\x00\x04nope", "serialization 9"),
    "binary header cut off": (b"\x00\x00\x00\x08\x01\x00\x00\x04nope", "binary header of 4 bytes"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
async def test_what_we_do_not_speak_closes_its_connection_with_one_line(
    server: Server, client: Client, data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.call(server.address, get("before"))
    async with await Peer.to(server.address) as peer:
        await peer.send(data)

        assert await peer.rest() == b""
        await until(lambda: server.connections == 1)

        assert len(complaints(caplog)) == 1
        assert complaints(caplog)[0].startswith(f"closed the connection from {peer.name}: {reason}")
    assert (await client.call(server.address, get("after"))).fields.value == "after"


@pytest.mark.parametrize("data", [REFUSED["HTTP"][0], REFUSED["gRPC"][0]], ids=["HTTP", "gRPC"])
async def test_a_stranger_is_recognized_byte_by_byte(
    server: Server, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(server.address) as peer:
        for byte in data:
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)
            if complaints(caplog):
                break

        assert await peer.rest() == b""
    assert len(complaints(caplog)) == 1


async def test_a_peer_that_connects_and_leaves_is_not_worth_a_line(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for beginning in (b"", b"\x00", b"GE", b"PROXY", ask()[:30]):
        async with await Peer.to(server.address) as peer:
            await peer.send(beginning)
            await until(lambda: server.connections == 1)
        await until(lambda: server.connections == 0)

    assert complaints(caplog) == []
