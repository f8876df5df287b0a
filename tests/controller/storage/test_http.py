"""The HTTP client: lengths, chunks, time limits, and servers that do not speak HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kerolox.controller.storage.http import HttpConnectFailed, HttpConnection, HttpError, HttpResponse
from kerolox.errors import ConfigurationError


@contextlib.asynccontextmanager
async def answering(*answers: bytes | None, is_kept: bool = True) -> AsyncIterator[tuple[HttpConnection, list[bytes]]]:
    """A server with these answers in turn; None leaves a request unanswered."""
    left = list(answers)
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(b"connected")
        with contextlib.suppress(EOFError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                requests.append(head.split(b"\r\n")[0] + b" " + body)
                answer = left.pop(0)
                if answer is None:
                    await reader.read()
                else:
                    writer.write(answer)
                if not is_kept:
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = HttpConnection(f"http://127.0.0.1:{port}", timeout_seconds=0.5)
    try:
        yield connection, requests
    finally:
        await connection.close()
        server.close()


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: x\r\n\r\n"


async def test_requests_share_a_connection() -> None:
    async with answering(PLAIN, CHUNKED) as (connection, requests):
        assert await connection.post("/a", b"1") == HttpResponse(200, b"{}")
        assert await connection.post("/b", b"2") == HttpResponse(503, b"abcd")

    assert requests == [b"connected", b"POST /a HTTP/1.1 1", b"POST /b HTTP/1.1 2"]


@pytest.mark.parametrize(
    "first", [PLAIN.replace(b"HTTP/1.1 200", b"HTTP/1.0 200"), PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")]
)
async def test_a_connection_that_the_server_ends_is_made_again(first: bytes) -> None:
    async with answering(first, PLAIN, is_kept=False) as (connection, requests):
        await connection.post("/a", b"1")
        await connection.post("/b", b"2")

    assert requests.count(b"connected") == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"HTTP/1.1 200",
        b"HTTP/1.1 many OK\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["nothing", "not http", "too long", "negative", "bad chunk", "long header", "incomplete", "bad status"],
)
async def test_without_a_complete_response_there_is_an_error_and_the_next_request_works(answer: bytes | None) -> None:
    async with answering(answer, PLAIN) as (connection, _):
        with pytest.raises(HttpError) as raised:
            await connection.post("/a", b"1")

        assert not isinstance(raised.value, HttpConnectFailed)
        assert (await connection.post("/b", b"2")).status == 200


async def test_a_refused_connection_is_told_apart() -> None:
    async with answering() as (connection, _):
        url = connection.url

    with pytest.raises(HttpConnectFailed):
        await HttpConnection(url).post("/a", b"")


@pytest.mark.parametrize("url", ["127.0.0.1:2379", "ftp://x", "http://", "http://x/path"])
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address of etcd"):
        HttpConnection(url)
