"""TLS: modes, trust, certificate reload, and failures."""

import asyncio
import os
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from kerolox.errors import ConfigurationError, ConnectFailed, ConnectionLost, RemotingError
from kerolox.remoting.address import AddressList, parse_address
from kerolox.remoting.client import Client
from kerolox.remoting.tls import ClientAuth, ServerTls, TlsFiles, TlsMode, client_context
from tests.remoting.support import Echo, Peer, ask, ask_slow, complaints, get, get_slow, issue, serving, until

CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


# Modes


async def test_tls_disabled_closes_a_tls_client_with_one_line(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo) as server, await Peer.to(server.address) as peer:
        await peer.send(CLIENT_HELLO)

        assert await peer.rest() == b""
        assert complaints(caplog) == [
            f"closed the connection from {peer.name}: TLS handshake, but TLS is not configured (tls.server.mode)"
        ]


async def test_tls_disabled_refuses_even_with_a_certificate(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.DISABLED, tls=server_tls) as server,
        Client(tls=client_context()) as client,
    ):
        with pytest.raises(ConnectFailed, match=f"cannot connect to {server.address}"):
            await client.call(server.address, get())
    assert len(complaints(caplog)) == 1


async def test_tls_permissive_takes_both(echo: Echo, server_tls: ServerTls) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        Client() as plain,
        Client(tls=client_context()) as encrypted,
    ):
        assert (await plain.call(server.address, get("plain"))).fields.value == "plain"
        assert (await encrypted.call(server.address, get("encrypted"))).fields.value == "encrypted"


async def test_tls_enforcing_refuses_a_plain_client(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls) as server,
        Client() as plain,
        Client(tls=client_context()) as encrypted,
    ):
        with pytest.raises(ConnectionLost):
            await plain.call(server.address, get("plain"))
        assert (await encrypted.call(server.address, get("encrypted"))).fields.value == "encrypted"

    assert echo.asked == ["encrypted"]
    assert len(complaints(caplog)) == 1
    assert "client without TLS, but tls.server.mode is enforcing" in complaints(caplog)[0]


async def test_tls_enforcing_without_a_certificate_is_refused(echo: Echo) -> None:
    with pytest.raises(ConfigurationError, match=r"tls\.server\.certPath"):
        async with serving(echo, tls_mode=TlsMode.ENFORCING):
            pass


# What a client verifies


async def test_a_client_with_a_ca_verifies_the_server(echo: Echo, server_tls: ServerTls, trust: Path) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls) as server,
        Client(tls=client_context(trust)) as client,
    ):
        assert (await client.call(server.address, get("trusted"))).fields.value == "trusted"


async def test_a_client_refuses_a_server_of_another_ca(
    echo: Echo, server_tls: ServerTls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls) as server:
        async with Client(tls=client_context(stranger)) as client:
            with pytest.raises(ConnectFailed, match=f"{server.address}.*CERTIFICATE_VERIFY_FAILED"):
                await client.call(server.address, get())

        await until(lambda: server.connections == 0)
    # The TLS alert carries the reason to the server.
    assert any("UNKNOWN_CA" in message.upper().replace(" ", "_") for message in complaints(caplog))


async def test_a_client_refuses_a_certificate_for_another_host(
    echo: Echo, authority: trustme.CA, trust: Path, tmp_path: Path
) -> None:
    tls = ServerTls(issue(authority, tmp_path, "elsewhere.example"))
    async with (
        serving(echo, tls_mode=TlsMode.ENFORCING, tls=tls) as server,
        Client(tls=client_context(trust)) as client,
    ):
        with pytest.raises(ConnectFailed, match="IP address mismatch"):
            await client.call(server.address, get())
    assert echo.asked == []


async def test_a_client_that_requires_tls_does_not_fall_back_to_plain(echo: Echo, trust: Path) -> None:
    """A plain server reads the ClientHello as garbage; a server that never reads does not respond to it."""
    listener = socket.create_server(("127.0.0.1", 0))
    async with Client(tls=client_context(trust), connect_timeout_seconds=0.05) as client:
        with pytest.raises(ConnectFailed, match=r"did not accept within 0\.05 s"):
            await client.call(f"127.0.0.1:{listener.getsockname()[1]}", get())
    listener.close()


# What a server verifies


@pytest.fixture
def client_files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    return issue(authority, tmp_path, "client.example", stem="client")


async def test_a_server_may_need_a_client_certificate(
    echo: Echo, tls_files: TlsFiles, client_files: TlsFiles, trust: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ServerTls(replace(tls_files, trust=trust, client_auth=ClientAuth.REQUIRE))
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=tls) as server:
        context = client_context(trust, client_files.certificate, client_files.key)
        async with Client(tls=context) as known, Client(tls=client_context(trust)) as unknown:
            assert (await known.call(server.address, get("known"))).fields.value == "known"
            with pytest.raises(RemotingError, match=r"(?i)certificate[_ ]required"):
                await unknown.call(server.address, get("unknown"))
    assert echo.asked == ["known"]


async def test_a_server_refuses_a_client_certificate_of_another_ca(
    echo: Echo, tls_files: TlsFiles, trust: Path, tmp_path: Path
) -> None:
    stranger = issue(trustme.CA(), tmp_path, "client.example", stem="stranger")
    tls = ServerTls(replace(tls_files, trust=trust, client_auth=ClientAuth.OPTIONAL))
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=tls) as server:
        context = client_context(trust, stranger.certificate, stranger.key)
        async with Client(tls=context) as unknown, Client(tls=client_context(trust)) as anonymous:
            with pytest.raises(RemotingError):
                await unknown.call(server.address, get("unknown"))
            # A client certificate is optional, but verified if present.
            assert (await anonymous.call(server.address, get("anonymous"))).fields.value == "anonymous"
    assert echo.asked == ["anonymous"]


def test_a_client_certificate_cannot_be_required_without_a_ca(tls_files: TlsFiles) -> None:
    with pytest.raises(ConfigurationError, match=r"tls\.server\.trustCertPath"):
        ServerTls(replace(tls_files, client_auth=ClientAuth.REQUIRE))


# Certificates on disk


def test_a_certificate_that_cannot_be_loaded_is_named(tls_files: TlsFiles, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=str(tmp_path / "missing.pem")):
        ServerTls(replace(tls_files, certificate=tmp_path / "missing.pem"))


def test_an_encrypted_key_needs_its_password_and_never_asks_for_it(authority: trustme.CA, tmp_path: Path) -> None:
    files = issue(authority, tmp_path, "127.0.0.1")
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        ServerTls(files)
    ServerTls(replace(files, key_password="secret"))


async def test_a_new_certificate_serves_new_connections(echo: Echo, tls_files: TlsFiles, trust: Path) -> None:
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=ServerTls(tls_files)) as server:
        old = await shown_certificate(server.address, trust)

        issue_again(tls_files, trust)

        new = await shown_certificate(server.address, trust)
        assert new != old
        assert new == ssl.PEM_cert_to_DER_cert(tls_files.certificate.read_text())


async def test_a_half_written_certificate_leaves_the_old_in_use_with_one_log_line(
    echo: Echo, tls_files: TlsFiles, trust: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=ServerTls(tls_files)) as server:
        old = await shown_certificate(server.address, trust)
        whole = tls_files.certificate.read_bytes()

        tls_files.certificate.write_bytes(whole[: len(whole) // 2])

        assert await shown_certificate(server.address, trust) == old
        assert await shown_certificate(server.address, trust) == old
        assert len(complaints(caplog)) == 1
        assert "kept the old TLS certificate" in complaints(caplog)[0]
        issue_again(tls_files, trust)
        assert await shown_certificate(server.address, trust) != old


async def test_a_certificate_without_its_key_leaves_the_old_in_place(
    echo: Echo, tls_files: TlsFiles, trust: Path
) -> None:
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=ServerTls(tls_files)) as server:
        old = await shown_certificate(server.address, trust)
        old_key = tls_files.key.read_bytes()

        issue_again(tls_files, trust)
        new_key = tls_files.key.read_bytes()
        tls_files.key.write_bytes(old_key)

        assert await shown_certificate(server.address, trust) == old
        tls_files.key.write_bytes(new_key)
        assert await shown_certificate(server.address, trust) != old


async def test_a_deleted_certificate_leaves_the_old_in_use(echo: Echo, tls_files: TlsFiles, trust: Path) -> None:
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=ServerTls(tls_files)) as server:
        old = await shown_certificate(server.address, trust)

        tls_files.certificate.unlink()

        assert await shown_certificate(server.address, trust) == old


def issue_again(files: TlsFiles, trust: Path) -> None:
    """Write a new certificate to the same files, with another mtime: file system timestamps may be too coarse."""
    authority = trustme.CA()
    issue(authority, files.certificate.parent, "127.0.0.1")
    authority.cert_pem.write_to_path(trust, append=True)
    for path in (files.certificate, files.key):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


async def shown_certificate(address: str, trust: Path) -> bytes:
    async with await Peer.to(address, tls=client_context(trust)) as peer:
        certificate: bytes = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate


# On the wire


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_big_bodies_go_both_ways(echo: Echo, server_tls: ServerTls, version: ssl.TLSVersion) -> None:
    context = client_context()
    context.maximum_version = version
    body = os.urandom(6 * 1024 * 1024)
    async with (
        serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls) as server,
        Client(tls=context) as client,
    ):
        replies = await asyncio.gather(*(client.call(server.address, get(), body[n:]) for n in range(2)))

    assert [reply.body for reply in replies] == [body, body[1:]]


async def test_calls_made_at_once_wait_for_the_handshake(echo: Echo, server_tls: ServerTls) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls) as server,
        Client(tls=client_context()) as client,
    ):
        await asyncio.gather(*(client.call(server.address, get(str(number))) for number in range(100)))

        assert server.connections == 1
    assert sorted(echo.asked) == sorted(map(str, range(100)))


async def test_asyncios_own_tls_client_is_answered(echo: Echo, server_tls: ServerTls, trust: Path) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        await Peer.to(server.address, tls=client_context(trust)) as peer,
    ):
        await peer.send(ask("stream", body=bytes(100_000)))

        assert len((await peer.answer()).body) == 100_000


async def test_a_blocking_tls_client_sees_a_clean_end(echo: Echo, server_tls: ServerTls, trust: Path) -> None:
    """Without close_notify, OpenSSL reports a truncation attack."""

    def talk(address: str) -> bytes:
        plain = socket.create_connection(parse_address(address), timeout=10)
        with client_context(trust).wrap_socket(
            plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False
        ) as encrypted:
            encrypted.sendall(ask("blocking") + b"\xff" * 8)
            return b"".join(iter(lambda: encrypted.recv(65536), b""))

    async with serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server:
        assert b"blocking" in await asyncio.to_thread(talk, server.address)


async def test_a_close_notify_ends_the_connection_cleanly(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server:
        async with await Peer.to(server.address, tls=client_context()) as peer:
            await peer.send(ask())
            await peer.answer()

        await until(lambda: server.connections == 0)
    assert complaints(caplog) == []


@pytest.mark.parametrize("size", [1, 5, 6, 11])
async def test_an_aborted_handshake_leaves_no_connection(
    echo: Echo, server_tls: ServerTls, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(CLIENT_HELLO[:size])
            await until(lambda: any(connection.is_partial for connection in server._connections))

        await until(lambda: server.connections == 0)
    assert complaints(caplog) == []


async def test_a_handshake_with_garbage_is_refused_with_one_line(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(b"\x16" + b"garbage" * 10)

        await peer.rest()
        await until(lambda: server.connections == 0)
    assert len(complaints(caplog)) == 1
    assert "TLS failed" in complaints(caplog)[0]


async def test_garbage_after_the_handshake_ends_only_that_connection(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        Client(tls=client_context()) as good,
        Client(tls=client_context()) as bad,
    ):
        await good.call(server.address, get("good"))
        waiting = asyncio.create_task(bad.call(server.address, get_slow("never")))
        await until(lambda: "never" in echo.asked)
        connection = await bad.connection(server.address)
        assert connection._transport is not None

        connection._transport.write(b"garbage" * 10)

        with pytest.raises(ConnectionLost):
            await waiting
        # The response to the broken connection is dropped.
        echo.gate("never").set()
        assert (await good.call(server.address, get("still"))).fields.value == "still"
        await until(lambda: server.connections == 1)
    assert all("TLS failed" in message for message in complaints(caplog))


async def test_a_tls_answer_that_took_long_is_sent(echo: Echo, server_tls: ServerTls) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        await Peer.to(server.address, tls=client_context()) as peer,
    ):
        await peer.send(ask_slow("gate"))
        await until(lambda: echo.asked)
        echo.gate("gate").set()

        assert (await peer.answer()).body == b"gate"


async def test_a_proxy_line_may_stand_before_tls(echo: Echo, server_tls: ServerTls) -> None:
    proxies = AddressList("127.0.0.1")
    async with serving(echo, tls_mode=TlsMode.ENFORCING, tls=server_tls, trusted_proxies=proxies) as server:
        reader, writer = await asyncio.open_connection(*parse_address(server.address))
        writer.write(b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n")
        await writer.start_tls(client_context(), server_hostname="127.0.0.1")
        async with Peer(reader, writer) as peer:
            await peer.send(ask("proxied"))

            assert (await peer.answer()).opaque == 7
    assert echo.remotes == {"203.0.113.9:5555"}


@pytest.mark.parametrize("first", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /topics HTTP/1.1\r\n\r\n"])
async def test_other_protocols_are_recognized_inside_tls(
    echo: Echo, server_tls: ServerTls, caplog: pytest.LogCaptureFixture, first: bytes
) -> None:
    async with (
        serving(echo, tls_mode=TlsMode.PERMISSIVE, tls=server_tls) as server,
        await Peer.to(server.address, tls=client_context()) as peer,
    ):
        await peer.send(first)
        await until(lambda: server.connections == 0)

    (complaint,) = complaints(caplog)
    assert "HTTP" in complaint
    assert "this port speaks RocketMQ's remoting protocol" in complaint
