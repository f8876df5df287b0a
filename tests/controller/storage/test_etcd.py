"""etcd as storage: leaders by lease, several endpoints, and answers that get lost."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from kerolox.controller.storage.etcd import Etcd
from kerolox.controller.storage.storage import ABSENT, Leadership, StorageUnavailable, VersionConflict
from kerolox.remoting.address import parse_address
from kerolox.runtime.clock import ManualClock

_prefixes = itertools.count()


@contextlib.asynccontextmanager
async def opened(*urls: str, prefix: str, lease_seconds: int = 60) -> AsyncIterator[Etcd]:
    etcd = Etcd(urls, prefix, ManualClock(), lease_seconds=lease_seconds)
    try:
        yield etcd
    finally:
        await etcd.close()


@pytest.fixture
def prefix() -> str:
    return f"/etcd-test/{next(_prefixes)}"


async def test_one_of_several_controllers_leads(etcd_url: str, prefix: str) -> None:
    async with opened(etcd_url, prefix=prefix) as first, opened(etcd_url, prefix=prefix) as second:
        now = ManualClock().monotonic()
        assert await first.campaign("n0", "10.0.0.1:9878") == Leadership(True, "n0", "10.0.0.1:9878", now + 60)
        assert await second.campaign("n1", "10.0.0.2:9878") == Leadership(False, "n0", "10.0.0.1:9878")
        assert (await first.campaign("n0", "10.0.0.1:9878")).is_leader

        await first.resign()

        assert (await second.campaign("n1", "10.0.0.2:9878")).is_leader
        assert await first.campaign("n0", "10.0.0.1:9878") == Leadership(False, "n1", "10.0.0.2:9878")


async def test_a_leader_whose_lease_has_expired_is_replaced(etcd_url: str, prefix: str) -> None:
    async with opened(etcd_url, prefix=prefix, lease_seconds=1) as first, opened(etcd_url, prefix=prefix) as second:
        await first.campaign("n0", "10.0.0.1:9878")
        async with asyncio.timeout(30):
            while not (await second.campaign("n1", "10.0.0.2:9878")).is_leader:
                await asyncio.sleep(0.1)

        assert await first.campaign("n0", "10.0.0.1:9878") == Leadership(False, "n1", "10.0.0.2:9878")


async def test_a_deposed_leader_cannot_change_what_its_successor_has_changed(etcd_url: str, prefix: str) -> None:
    async with opened(etcd_url, prefix=prefix) as first, opened(etcd_url, prefix=prefix) as second:
        version = await first.replace("broker-a", b"master 1", ABSENT)
        await second.replace("broker-a", b"master 2", version)

        with pytest.raises(VersionConflict):
            await first.replace("broker-a", b"master 3", version)
        found = await first.read("broker-a")
        assert found is not None
        assert found.value == b"master 2"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as it:
        port: int = it.getsockname()[1]
        return port


async def test_an_endpoint_that_is_down_is_passed_over(etcd_url: str, prefix: str) -> None:
    async with opened(f"http://127.0.0.1:{free_port()}", etcd_url, prefix=prefix) as etcd:
        version = await etcd.replace("broker-a", b"1", ABSENT)

        assert await etcd.read("broker-a") == (b"1", version)


async def test_without_etcd_the_storage_is_unavailable(prefix: str) -> None:
    async with opened(f"http://127.0.0.1:{free_port()}", prefix=prefix) as etcd:
        with pytest.raises(StorageUnavailable, match="etcd did not answer"):
            await etcd.load()
        with pytest.raises(StorageUnavailable, match="etcd did not answer"):
            await etcd.replace("broker-a", b"1", ABSENT)


Meddle = Callable[[bytes], bool]


@contextlib.asynccontextmanager
async def proxy(etcd_url: str, loses_answer: Meddle) -> AsyncIterator[str]:
    """Forward single requests to etcd, and close the connection instead of answering those that are to be lost."""
    host, port = parse_address(etcd_url.removeprefix("http://"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            request = head + await reader.readexactly(size)
            there, back = await asyncio.open_connection(host, port)
            back.write(request.replace(b"\r\nContent-Type", b"\r\nConnection: close\r\nContent-Type"))
            answer = await there.read()
            back.close()
            if not loses_answer(request):
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_change_whose_answer_is_lost_is_found_to_be_made(etcd_url: str, prefix: str) -> None:
    async with (
        proxy(etcd_url, lambda request: b"/v3/kv/txn" in request) as url,
        opened(url, prefix=prefix) as etcd,
    ):
        version = await etcd.replace("broker-a", b"1", ABSENT)
        assert await etcd.read("broker-a") == (b"1", version)
        assert (await etcd.replace("broker-a", b"2", version)) > version


async def test_an_answer_that_is_lost_together_with_the_look_at_the_result_leaves_it_unknown(
    etcd_url: str, prefix: str
) -> None:
    async with proxy(etcd_url, lambda request: True) as url, opened(url, prefix=prefix) as etcd:
        with pytest.raises(StorageUnavailable):
            await etcd.replace("broker-a", b"1", ABSENT)
