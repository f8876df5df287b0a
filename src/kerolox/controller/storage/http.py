"""A small HTTP/1.1 client for JSON over asyncio streams: one connection, one request at a time."""

import asyncio
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

from kerolox.errors import ConfigurationError, KeroloxError, reason

HEADERS_SIZE_MAX = 64 * 1024
BODY_SIZE_MAX = 64 * 1024 * 1024


class HttpError(KeroloxError):
    """There was no complete response; it is unknown whether the request was executed."""


class HttpConnectFailed(HttpError):
    """No connection could be made, so the request was certainly not executed."""


class HttpResponse(NamedTuple):
    status: int
    body: bytes


class HttpConnection:
    """Posts to one server, with a connection that is kept while the server keeps it."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None, timeout_seconds: float = 3.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ConfigurationError(
                f"{url!r} is not an address of etcd: expected http://host:port or https://host:port"
            )
        self.url = url
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._timeout_seconds = timeout_seconds
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._busy = asyncio.Lock()

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Return the response; HttpError if there is none within the time limit. Never sends a request twice."""
        async with self._busy:
            try:
                if self._reader is None or self._reader.at_eof():
                    await self._connect()
                async with asyncio.timeout(self._timeout_seconds):
                    return await self._exchange(path, body)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
                self._drop()
                why = "no answer in time" if isinstance(error, TimeoutError) else reason(error)
                raise HttpError(f"{self.url}{path}: {why or type(error).__name__}") from error
            except BaseException:
                # A response that is not read would be taken for that of the next request.
                self._drop()
                raise

    async def _connect(self) -> None:
        self._drop()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._reader, self._writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=HEADERS_SIZE_MAX
                )
        except OSError as error:
            why = "no connection in time" if isinstance(error, TimeoutError) else reason(error)
            raise HttpConnectFailed(f"{self.url}: {why}") from error

    async def _exchange(self, path: str, body: bytes) -> HttpResponse:
        assert self._reader is not None
        assert self._writer is not None
        host = f"[{self._host}]" if ":" in self._host else self._host
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, *_ = lines[0].split(" ", 2)
        if not version.startswith("HTTP/1."):
            raise ValueError(f"not an HTTP response: {lines[0][:80]!r}")
        fields = dict(_field(line) for line in lines[1:] if line)
        content = await self._content(fields)
        if version == "HTTP/1.0" or fields.get("connection", "").lower() == "close":
            self._drop()
        return HttpResponse(int(status), content)

    async def _content(self, fields: dict[str, str]) -> bytes:
        assert self._reader is not None
        if fields.get("transfer-encoding", "").lower() == "chunked":
            parts: list[bytes] = []
            while size := _bounded(int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)):
                parts.append(await self._reader.readexactly(size))
                _bounded(sum(map(len, parts)))
                await self._reader.readexactly(2)
            while await self._reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return b"".join(parts)
        return await self._reader.readexactly(_bounded(int(fields.get("content-length", "0"))))

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def close(self) -> None:
        writer = self._writer
        self._drop()
        if writer is not None:
            try:
                async with asyncio.timeout(1):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                pass


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _bounded(size: int) -> int:
    if not 0 <= size <= BODY_SIZE_MAX:
        raise ValueError(f"a response of {size} bytes exceeds the limit of {BODY_SIZE_MAX}")
    return size
