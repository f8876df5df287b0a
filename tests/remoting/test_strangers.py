"""Before the first frame: PROXY headers, other protocols, and garbage."""

import asyncio
import ipaddress
import struct
from collections.abc import AsyncIterator

import pytest

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import AddressList
from kerolox.remoting.client import Client
from kerolox.remoting.config import ListenerConfig
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import ManualClock
from tests.remoting.support import Echo, Peer, ask, complaints, get, serving, until


@pytest.fixture
async def server(echo: Echo) -> AsyncIterator[Server]:
    """A server that trusts proxies on loopback."""
    async with serving(echo, trusted_proxies=AddressList("127.0.0.1")) as server:
        yield server


def framed(header: bytes) -> bytes:
    return struct.pack(">II", 4 + len(header), len(header)) + header


def proxy_v2(*, command: int = 1, family: int = 1, addresses: bytes = b"") -> bytes:
    signature = b"\r\n\r\n\x00\r\nQUIT\n"
    return signature + struct.pack(">BBH", 0x20 | command, family << 4 | 1, len(addresses)) + addresses


TCP4 = b"".join(ipaddress.ip_address(host).packed for host in ("203.0.113.9", "127.0.0.1")) + struct.pack(
    ">HH", 5555, 9876
)
TCP6 = b"".join(ipaddress.ip_address(host).packed for host in ("2001:db8::9", "::1")) + struct.pack(">HH", 5555, 9876)

WITH_SOURCE = {
    "v1 TCP4": (b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n", "203.0.113.9:5555"),
    "v1 TCP6": (b"PROXY TCP6 2001:db8::9 ::1 5555 9876\r\n", "[2001:db8::9]:5555"),
    "v2 TCP4": (proxy_v2(addresses=TCP4), "203.0.113.9:5555"),
    "v2 TCP6": (proxy_v2(family=2, addresses=TCP6), "[2001:db8::9]:5555"),
    "v2 TCP4 with more": (proxy_v2(addresses=TCP4 + bytes(100)), "203.0.113.9:5555"),
}
WITHOUT_SOURCE = {
    "v1 UNKNOWN": b"PROXY UNKNOWN\r\n",
    "v1 UNKNOWN with more": b"PROXY UNKNOWN ffff::1 ::1 1 2\r\n",
    "v2 LOCAL": proxy_v2(command=0, family=0),
    "v2 without addresses": proxy_v2(family=0),
}
HEADERS = {name: header for name, (header, _) in WITH_SOURCE.items()} | WITHOUT_SOURCE


@pytest.mark.parametrize(("header", "source"), WITH_SOURCE.values(), ids=WITH_SOURCE)
async def test_a_proxy_header_sets_the_remote_address(server: Server, echo: Echo, header: bytes, source: str) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(header + ask())

        assert (await peer.answer()).opaque == 7
    assert echo.remotes == {source}


@pytest.mark.parametrize("header", WITHOUT_SOURCE.values(), ids=WITHOUT_SOURCE)
async def test_a_proxy_header_without_source_keeps_the_peer_address(server: Server, echo: Echo, header: bytes) -> None:
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


async def test_a_refusal_after_a_proxy_header_names_the_source_address(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n" + b"\xff" * 8)

        assert await peer.rest() == b""
    assert complaints(caplog)[0].startswith("closed the connection from 203.0.113.9:5555: ")


@pytest.mark.parametrize("proxies", ["", "192.0.2.7;10.0.0.0/8;::1"], ids=["none", "others"])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
async def test_a_proxy_header_from_an_address_that_is_not_listed_closes_its_connection(
    echo: Echo, header: bytes, proxies: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(echo, trusted_proxies=AddressList(proxies)) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(header + ask())

        assert await peer.rest() == b""
        reason = "PROXY header from an address that proxyProtocolTrustedAddresses does not list"
        assert complaints(caplog) == [f"closed the connection from {peer.name}: {reason}"]
    assert echo.asked == []


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.0/8", " 192.0.2.7 ; 127.0.0.1 ;", "::1;127.0.0.1/32"])
async def test_proxies_are_listed_by_address_or_network(echo: Echo, text: str) -> None:
    config = ListenerConfig.from_properties({"proxyProtocolTrustedAddresses": text})
    async with (
        serving(echo, trusted_proxies=config.proxy_protocol_trusted_addresses) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(WITH_SOURCE["v1 TCP4"][0] + ask())

        assert (await peer.answer()).opaque == 7
    assert config.to_properties()["proxyProtocolTrustedAddresses"] == text.strip()


@pytest.mark.parametrize("text", ["localhost", "10.0.0.7,10.0.0.8", "10.0.0.1/8", "10.0.0.7:1234", "*"])
def test_an_invalid_list_of_proxies_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="proxyProtocolTrustedAddresses="):
        ListenerConfig.from_properties({"proxyProtocolTrustedAddresses": text})


def test_ipv6_proxies_are_known_by_their_network() -> None:
    proxies = AddressList("2001:db8::/32")

    assert [proxies.includes(host) for host in ("2001:db8::9", "2001:db9::9", "127.0.0.1")] == [True, False, False]


REFUSED = {
    "second PROXY header": (b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n", "second PROXY header"),
    "second PROXY header, v2": (proxy_v2(command=0) * 2, "second PROXY header"),
    "PROXY line with a bad address": (b"PROXY TCP4 nowhere 127.0.0.1 1 2\r\n", "PROXY line with a bad address"),
    "PROXY line with a bad port": (b"PROXY TCP4 127.0.0.1 127.0.0.1 x 2\r\n", "PROXY line with a bad address"),
    "PROXY line of another family": (b"PROXY UDP4 127.0.0.1 127.0.0.1 1 2\r\n", "malformed PROXY line"),
    "PROXY line without an end": (b"PROXY TCP4 " + b"1" * 200, "PROXY line without an end"),
    "PROXY v2 that lies": (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff", "PROXY header of version 2 with 65535 bytes"),
    "PROXY v3": (b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x00", "PROXY header of version 3 with 0 bytes"),
    "HTTP": (
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "HTTP client that sent 'GET /health HTTP/1.1'; this port speaks RocketMQ's remoting protocol",
    ),
    "HTTP with a long line": (b"POST /" + b"x" * 300, "HTTP client that sent 'POST /xxx"),
    "gRPC": (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "gRPC (HTTP/2) client; this port speaks RocketMQ's remoting protocol",
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
async def test_other_protocols_are_closed_with_one_log_line(
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
async def test_other_protocols_are_recognized_byte_by_byte(
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


async def test_a_peer_that_connects_and_leaves_is_not_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    for beginning in (b"", b"\x00", b"GE", b"PROXY", ask()[:30]):
        async with await Peer.to(server.address) as peer:
            await peer.send(beginning)
            await until(lambda: server.connections == 1)
        await until(lambda: server.connections == 0)

    assert complaints(caplog) == []


async def test_after_a_few_log_lines_further_refusals_are_only_counted(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with serving(echo, clock=clock) as server:
        for data in [REFUSED["garbage"][0], REFUSED["HTTP"][0], REFUSED["second PROXY header"][0]] * 10:
            async with await Peer.to(server.address) as peer:
                await peer.send(data)
                assert await peer.rest() == b""
        assert len(complaints(caplog)) == 10

        await clock.advance(62)

        assert complaints(caplog)[10:] == ["20 more lines about closed connections in the last 60 s"]
        async with await Peer.to(server.address) as peer:
            await peer.send(REFUSED["SSH"][0])
            assert await peer.rest() == b""
    assert REFUSED["SSH"][1] in complaints(caplog)[-1]
