"""A connection that blocks, to servers that do what they should, and to others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from kerolox.auth.signing import signature
from kerolox.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from kerolox.spark.channel import Channel
from kerolox.spark.connecting import Connect
from kerolox.spark.given import OptionError
from kerolox.wire.command import ANSWER_BIT, JSON, decode, encode
from kerolox.wire.frames import PREFIX, FrameReader
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound
from tests.spark.clusters import Brokers

REQUEST = GetMaxOffset(topic="orders", queue_id=0)
CONNECT = Connect(name_servers="127.0.0.1:1")


@contextmanager
def _server(*pieces: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that takes what comes, sends these pieces one by one, and closes."""
    received: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            received.append(connection.recv(65536))
            for piece in pieces:
                connection.sendall(piece)
            if not pieces:
                connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        thread.join()


def _answer(opaque: int, body: bytes = b"") -> bytes:
    return encode(JSON, code=0, opaque=opaque, flag=ANSWER_BIT, ext={"offset": "7"}, body=body)


def test_an_answer_that_comes_in_pieces_is_read_whole() -> None:
    answer = _answer(5, b"body" * 1000)
    with _server(answer[:3], answer[3:50], answer[50:]) as (address, _):
        channel = Channel(address, CONNECT, 5)
        channel.ask(REQUEST)
        command, size = channel.head()

        assert (command.opaque, channel.body(size)) == (5, b"body" * 1000)
        channel.close()


def test_what_the_server_asks_in_between_is_passed_over() -> None:
    question = encode(JSON, code=40, opaque=1, ext={"a": "b"}, body=b"notify")
    with _server(question + _answer(9)) as (address, _):
        channel = Channel(address, CONNECT, 5)
        channel.ask(REQUEST)

        assert channel.head().command.opaque == 9
        channel.close()


def test_requests_are_signed_for_who_has_a_key() -> None:
    connect = Connect(name_servers="127.0.0.1:1", access_key="me", secret_key="secret", security_token="t")
    with _server(_answer(1)) as (address, received):
        channel = Channel(address, connect, 5)
        channel.ask(REQUEST)
        channel.head()
        channel.close()

    (frame,) = FrameReader().feed(received[0])
    fields = REQUEST.ext() | {"AccessKey": "me", "SecurityToken": "t"}
    ext = decode(frame).ext
    assert OffsetFound.decode(ext).offset is None
    assert f'"Signature":"{signature("secret", fields, b"")}"'.encode() in frame[1]
    assert b'"AccessKey":"me"' in frame[1]


def test_a_server_that_leaves_is_lost() -> None:
    with _server(_answer(1)[:10]) as (address, _):
        channel = Channel(address, CONNECT, 5)
        channel.ask(REQUEST)

        with pytest.raises(ConnectionLost):
            channel.head()


def test_a_server_that_keeps_silent_is_given_up() -> None:
    with _server() as (address, _):
        channel = Channel(address, CONNECT, 0.2)
        channel.ask(REQUEST)

        with pytest.raises(CallTimeout, match="did not answer in time"):
            channel.head()


def test_what_is_no_frame_is_refused_before_it_is_read() -> None:
    with _server(PREFIX.pack(2**31, 10)) as (address, _):
        channel = Channel(address, CONNECT, 5)
        channel.ask(REQUEST)

        with pytest.raises(ProtocolError, match="frame of 2147483652 bytes"):
            channel.head()


def test_where_nobody_listens_the_address_is_named() -> None:
    with pytest.raises(ConnectFailed, match=r"cannot connect to 127\.0\.0\.1:1:"):
        Channel("127.0.0.1:1", CONNECT, 5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(directory / "other.pem"))
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(directory / "server.pem"))
    return directory


def test_a_broker_is_read_through_tls_and_verified(authority: Path, tmp_path: Path) -> None:
    files = {"tls.server.certPath": str(authority / "server.pem"), "tls.server.keyPath": str(authority / "server.pem")}
    with Brokers(tmp_path, **files) as cluster:
        address = cluster.brokers["broker-a"].address
        trusting = Connect(name_servers=cluster.namesrv_addr, tls=True, tls_trust=str(authority / "ca.pem"))
        channel = Channel(address, trusting, 5)
        channel.ask(REQUEST)
        assert channel.head().command.code is not None
        channel.close()

        other = Connect(name_servers=cluster.namesrv_addr, tls=True, tls_trust=str(authority / "other.pem"))
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            Channel(address, other, 5)


def test_a_certificate_that_is_not_there_is_named() -> None:
    connect = Connect(name_servers="127.0.0.1:1", tls=True, tls_trust="/nowhere/ca.pem")

    with pytest.raises(OptionError, match=r"tlsTrustCertPath, .* cannot be loaded on this machine"):
        connect.tls_context()
