"""The blocking connection, with correct and with faulty servers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from kerolox.auth.signing import signature
from kerolox.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.option_parser import OptionError
from kerolox.spark.read.blocking_connection import BlockingConnection
from kerolox.wire.command import ANSWER_BIT, JSON, decode, encode
from kerolox.wire.frames import PREFIX, FrameReader
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound
from tests.spark.clusters import Brokers

REQUEST = GetMaxOffset(topic="orders", queue_id=0)
CONNECT = ConnectionOptions(name_servers="127.0.0.1:1")


@contextmanager
def _server(*pieces: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that accepts any request, sends these pieces one by one, and closes."""
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


def _response(opaque: int, body: bytes = b"") -> bytes:
    return encode(JSON, code=0, opaque=opaque, flag=ANSWER_BIT, ext={"offset": "7"}, body=body)


def test_a_response_that_arrives_in_pieces_is_read_completely() -> None:
    answer = _response(5, b"body" * 1000)
    with _server(answer[:3], answer[3:50], answer[50:]) as (address, _):
        connection = BlockingConnection(address, CONNECT, 5)
        connection.send(REQUEST)
        command, size = connection.read_header()

        assert (command.opaque, connection.read_body(size)) == (5, b"body" * 1000)
        connection.close()


def test_requests_from_the_server_are_skipped() -> None:
    question = encode(JSON, code=40, opaque=1, ext={"a": "b"}, body=b"notify")
    with _server(question + _response(9)) as (address, _):
        connection = BlockingConnection(address, CONNECT, 5)
        connection.send(REQUEST)

        assert connection.read_header().command.opaque == 9
        connection.close()


def test_requests_are_signed_if_there_are_credentials() -> None:
    connect = ConnectionOptions(name_servers="127.0.0.1:1", access_key="me", secret_key="secret", security_token="t")
    with _server(_response(1)) as (address, received):
        connection = BlockingConnection(address, connect, 5)
        connection.send(REQUEST)
        connection.read_header()
        connection.close()

    (frame,) = FrameReader().feed(received[0])
    fields = REQUEST.ext() | {"AccessKey": "me", "SecurityToken": "t"}
    ext = decode(frame).ext
    assert OffsetFound.decode(ext).offset is None
    assert f'"Signature":"{signature("secret", fields, b"")}"'.encode() in frame[1]
    assert b'"AccessKey":"me"' in frame[1]


def test_a_closed_connection_raises_connection_lost() -> None:
    with _server(_response(1)[:10]) as (address, _):
        connection = BlockingConnection(address, CONNECT, 5)
        connection.send(REQUEST)

        with pytest.raises(ConnectionLost):
            connection.read_header()


def test_a_server_that_does_not_respond_raises_call_timeout() -> None:
    with _server() as (address, _):
        connection = BlockingConnection(address, CONNECT, 0.2)
        connection.send(REQUEST)

        with pytest.raises(CallTimeout, match="did not respond in time"):
            connection.read_header()


def test_an_invalid_frame_is_refused_before_its_body_is_read() -> None:
    with _server(PREFIX.pack(2**31, 10)) as (address, _):
        connection = BlockingConnection(address, CONNECT, 5)
        connection.send(REQUEST)

        with pytest.raises(ProtocolError, match="frame of 2147483652 bytes"):
            connection.read_header()


def test_a_refused_connection_names_the_address() -> None:
    with pytest.raises(ConnectFailed, match=r"cannot connect to 127\.0\.0\.1:1:"):
        BlockingConnection("127.0.0.1:1", CONNECT, 5)


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
        trusting = ConnectionOptions(name_servers=cluster.namesrv_addr, tls=True, tls_trust=str(authority / "ca.pem"))
        connection = BlockingConnection(address, trusting, 5)
        connection.send(REQUEST)
        assert connection.read_header().command.code is not None
        connection.close()

        other = ConnectionOptions(name_servers=cluster.namesrv_addr, tls=True, tls_trust=str(authority / "other.pem"))
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            BlockingConnection(address, other, 5)


def test_a_missing_certificate_is_named() -> None:
    connect = ConnectionOptions(name_servers="127.0.0.1:1", tls=True, tls_trust="/nowhere/ca.pem")

    with pytest.raises(OptionError, match=r"tlsTrustCertPath, .* cannot be loaded on this machine"):
        connect.tls_context()
