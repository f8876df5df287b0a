"""An HTTP listener for Prometheus: `GET /metrics` only, with limits on connections, time and request size."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import format_address
from kerolox.runtime.metrics.prometheus import MetricFamily, TextFormat, encode
from kerolox.runtime.service import Service
from kerolox.runtime.threads import in_thread

log = logging.getLogger(__name__)

Source = Callable[[], Awaitable[Sequence[MetricFamily]]]

_CONNECTIONS_MAX = 16
_REQUEST_SIZE_MAX = 8192
_REQUEST_SECONDS_MAX = 10.0
_ANSWER_SECONDS_MAX = 30.0
# Further scrapes within this time get the same response.
_FRESH_SECONDS = 1.0


class MetricsListener(Service):
    """Collects metrics from all sources when scraped, at most once per second."""

    def __init__(self, sources: Sequence[Source], *, host: str, port: int) -> None:
        self._sources = sources
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()
        # The last response body in each format.
        self._collections: dict[TextFormat, _Collection] = {}

    async def open(self) -> None:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=_REQUEST_SIZE_MAX)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            where = format_address((self._host, self._port))
            raise ConfigurationError(f"metrics cannot listen on {where}: {reason}") from error

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://{format_address(self._server.sockets[0].getsockname())}/metrics"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        collecting = [collection.body for collection in self._collections.values()]
        tasks: list[asyncio.Task[None] | asyncio.Task[bytes]] = [*self._answering, *collecting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._answering) >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="metrics")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS_MAX):
                request = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_ANSWER_SECONDS_MAX):
                writer.write(await self._answer(request))
                # A client that does not read within the time limit is disconnected.
                writer.transport.set_write_buffer_limits(0)
                await writer.drain()
                writer.close()
        except asyncio.LimitOverrunError:
            writer.write(_response("431 Request Header Fields Too Large", b"the request is too long\n"))
            writer.close()
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            log.debug("the client closed the connection before it got the metrics")
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"only GET is supported\n", "Allow: GET, HEAD\r\n")
        if path != "/metrics":
            return _response("404 Not Found", b"metrics are at /metrics\n")
        text_format = TextFormat.OPEN_METRICS if _accepts_open_metrics(request) else TextFormat.PLAIN
        try:
            body = await self._collected(text_format)
        except Exception:
            log.exception("collecting metrics failed")
            return _response("500 Internal Server Error", b"collecting metrics failed; see the log\n")
        answer = _response("200 OK", body, content_type=text_format.value)
        return answer if method == "GET" else answer[: -len(body)]

    async def _collected(self, text_format: TextFormat) -> bytes:
        """Concurrent scrapes, and those shortly after each other, share one collection."""
        now = asyncio.get_running_loop().time()
        last = self._collections.get(text_format)
        if last is None or (last.body.done() and now >= last.fresh_until):
            body = asyncio.create_task(self._collect(text_format), name="collect metrics")
            last = self._collections[text_format] = _Collection(body, now + _FRESH_SECONDS)
        return await asyncio.shield(last.body)

    async def _collect(self, text_format: TextFormat) -> bytes:
        families = [family for source in self._sources for family in await source()]
        return await in_thread(encode, families, text_format)


@dataclass(frozen=True, slots=True)
class _Collection:
    body: asyncio.Task[bytes]
    fresh_until: float


def _accepts_open_metrics(request: bytes) -> bool:
    lines = (line.partition(b":") for line in request.lower().split(b"\r\n")[1:])
    return any(name == b"accept" and b"application/openmetrics-text" in value for name, _, value in lines)


def _response(status: str, body: bytes, more: str = "", *, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return head.encode("latin-1") + body
