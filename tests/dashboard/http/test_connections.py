import asyncio
from pathlib import Path

from kerolox.dashboard.server import DashboardOptions
from tests.dashboard.browsing import visiting

UNREACHABLE = "127.0.0.1:1"


async def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE, silence_seconds=0.1), tmp_path) as visitor:
        reader, writer = await _connect(visitor.dashboard.url)

        async with asyncio.timeout(60):
            assert await _rest(reader) == b""
        writer.close()


async def test_an_incomplete_header_closes_the_connection(tmp_path: Path) -> None:
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE, silence_seconds=0.1), tmp_path) as visitor:
        reader, writer = await _connect(visitor.dashboard.url)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")

        async with asyncio.timeout(60):
            assert await _rest(reader) == b""
        writer.close()


async def test_connections_beyond_the_limit_are_refused_and_earlier_ones_served(tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=UNREACHABLE, connections_max=2, silence_seconds=60)
    async with visiting(options, tmp_path) as visitor:
        first, first_writer = await _connect(visitor.dashboard.url)
        _, second_writer = await _connect(visitor.dashboard.url)
        third, third_writer = await _connect(visitor.dashboard.url)

        async with asyncio.timeout(60):
            assert await _rest(third) == b""
            first_writer.write(b"GET /static/style.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await _rest(first)).startswith(b"HTTP/1.1 200 ")
        for writer in (first_writer, second_writer, third_writer):
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionResetError:
        return b""


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
