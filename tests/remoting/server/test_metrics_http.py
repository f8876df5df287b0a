"""The HTTP listener for Prometheus, and its limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from kerolox.errors import ConfigurationError
from kerolox.remoting.server import metrics_http
from kerolox.remoting.server.metrics_http import MetricsListener, Source
from kerolox.runtime.metrics.prometheus import Family, Kind, Metric

HOPS = Metric("hops_total", Kind.COUNTER, "Hops.")


class Hops:
    """A metrics source that counts its calls."""

    def __init__(self) -> None:
        self.asked = 0

    async def gather(self) -> list[Family]:
        self.asked += 1
        await asyncio.sleep(0)
        return [Family(HOPS, [((), self.asked)], {})]


@asynccontextmanager
async def listening(*sources: Source) -> AsyncIterator[MetricsListener]:
    listener = MetricsListener(sources, host="127.0.0.1", port=0)
    await listener.open()
    try:
        yield listener
    finally:
        await listener.close()


async def connect(listener: MetricsListener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", urlsplit(listener.url).port)


async def ask(listener: MetricsListener, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Return status, headers and body."""
    reader, writer = await connect(listener)
    async with asyncio.timeout(60):
        writer.write(request)
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return the remaining bytes, whether the other side closes or resets."""
    async with asyncio.timeout(60):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_metrics_include_those_of_the_process() -> None:
    async with listening(Hops().gather) as listener:
        status, headers, body = await ask(listener, b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n")

    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert int(headers["Content-Length"]) == len(body)
    assert b"\nhops_total 1.0\n" in body
    assert b"\nprocess_resident_memory_bytes " in body


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3", "application/openmetrics-text"),
        (b"text/plain;version=0.0.4", "text/plain"),
        (b"*/*", "text/plain"),
    ],
)
async def test_open_metrics_is_served_to_clients_that_accept_it(accept: bytes, content_type: str) -> None:
    async with listening(Hops().gather) as listener:
        _, headers, body = await ask(listener, b"GET /metrics HTTP/1.1\r\nACCEPT: " + accept + b"\r\n\r\n")

    assert headers["Content-Type"].startswith(content_type)
    assert body.endswith(b"# EOF\n") is (content_type != "text/plain")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"POST /metrics HTTP/1.1", "405 Method Not Allowed"),
        (b"GET /etc/passwd HTTP/1.1", "404 Not Found"),
        (b"GET / HTTP/1.0", "404 Not Found"),
        (b"\xff\xfe", "405 Method Not Allowed"),
        (b"HEAD /metrics HTTP/1.1", "200 OK"),
    ],
)
async def test_other_paths_and_methods_get_no_metrics(request_line: bytes, status: str) -> None:
    async with listening(Hops().gather) as listener:
        told, _, body = await ask(listener, request_line + b"\r\n\r\n")

    assert told == f"HTTP/1.1 {status}"
    assert b"hops_total" not in body


async def test_an_endless_request_is_cut_off() -> None:
    async with listening() as listener:
        status, _, _ = await ask(listener, b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5000)

    assert status.startswith("HTTP/1.1 431")


async def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "_REQUEST_SECONDS_MAX", 0.05)
    async with listening() as listener:
        reader, writer = await connect(listener)
        assert await rest(reader) == b""
        writer.close()


async def test_connections_over_the_limit_are_refused_until_others_end() -> None:
    async with listening(Hops().gather) as listener:
        silent = [await connect(listener) for _ in range(metrics_http._CONNECTIONS_MAX)]
        reader, writer = await connect(listener)
        assert await rest(reader) == b""
        writer.close()
        for _, each in silent:
            each.close()
        async with asyncio.timeout(60):
            while listener._answering:
                await asyncio.sleep(0.01)

        status, _, _ = await ask(listener, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert status == "HTTP/1.1 200 OK"


async def test_concurrent_requests_share_one_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "_FRESH_SECONDS", 3600.0)
    hops = Hops()
    async with listening(hops.gather) as listener:
        answers = await asyncio.gather(*(ask(listener, b"GET /metrics HTTP/1.1\r\n\r\n") for _ in range(5)))

    assert {b"\nhops_total 1.0\n" in body for _, _, body in answers} == {True}
    assert hops.asked == 1


async def test_metrics_are_collected_again_after_the_cache_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "_FRESH_SECONDS", 0.0)
    hops = Hops()
    async with listening(hops.gather) as listener:
        for _ in range(2):
            await ask(listener, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert hops.asked == 2


async def test_a_failing_source_is_a_500_without_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> list[Family]:
        raise RuntimeError("secret")

    async with listening(broken) as listener:
        status, _, body = await ask(listener, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert status == "HTTP/1.1 500 Internal Server Error"
    assert b"secret" not in body
    assert "secret" in caplog.text


async def test_a_port_in_use_is_an_error() -> None:
    async with listening() as listener:
        port = urlsplit(listener.url).port
        assert port is not None
        with pytest.raises(ConfigurationError, match=f"metrics cannot listen on 127.0.0.1:{port}: "):
            await MetricsListener([], host="127.0.0.1", port=port).open()
