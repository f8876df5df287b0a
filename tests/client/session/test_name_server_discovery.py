"""NameServer addresses that are fetched over HTTP."""

import asyncio
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kerolox.client import Message, Options, Producer
from kerolox.client.session.name_server_discovery import REFRESH_SECONDS, fetch_addresses
from kerolox.errors import ConfigurationError, ConnectFailed
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from tests.client.sessions import session_of, until


class AddressServer:
    """Serves a text, and records the requested paths."""

    def __init__(self) -> None:
        self.text = ""
        self.status = 200
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/rocketmq/nsaddr"


@pytest.fixture
def listing() -> Iterator[AddressServer]:
    listing = AddressServer()
    thread = threading.Thread(target=listing.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield listing
    finally:
        listing.server.shutdown()
        listing.server.server_close()
        thread.join()


async def test_a_producer_uses_the_fetched_name_servers(listing: AddressServer, cluster: Cluster) -> None:
    listing.text = f"{cluster.namesrv_addr}\n"
    async with Producer("shop", namesrv_url=listing.url + "-unit?nofix=1") as producer:
        await producer.send(Message("orders", b"body"))

    assert listing.paths == ["/rocketmq/nsaddr-unit?nofix=1"]


async def test_the_list_is_refreshed_and_kept_if_that_fails(listing: AddressServer) -> None:
    clock = ManualClock()
    listing.text = "127.0.0.1:1;127.0.0.1:2"
    async with session_of(Options(namesrv_url=listing.url, clock=clock)) as session:
        assert set(session.name_servers.addresses) == {"127.0.0.1:1", "127.0.0.1:2"}

        listing.text = "127.0.0.1:3"
        await clock.advance(REFRESH_SECONDS)
        await until(lambda: session.name_servers.addresses == ["127.0.0.1:3"])

        listing.status = 500
        asked = len(listing.paths)
        await clock.advance(REFRESH_SECONDS)
        await until(lambda: len(listing.paths) > asked)
        assert session.name_servers.addresses == ["127.0.0.1:3"]


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [(404, "127.0.0.1:1", "status 404"), (200, "<html>", "not return a list of NameServers"), (200, "", "empty list")],
)
async def test_a_bad_list_is_refused(status: int, text: str, reason: str, listing: AddressServer) -> None:
    listing.status, listing.text = status, text

    with pytest.raises(ConnectFailed, match=reason):
        await fetch_addresses(listing.url, 5)


async def test_the_error_names_the_url_that_cannot_be_reached() -> None:
    with pytest.raises(ConnectFailed, match=re.escape("list of NameServers from http://127.0.0.1:1/")):
        async with asyncio.timeout(10):
            await Producer("shop", namesrv_url="http://127.0.0.1:1/").start()


@pytest.mark.parametrize("url", ["", "127.0.0.1:9876", "ftp://host/list", "http://"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="expected http"):
        Options(namesrv_url=url)


def test_namesrv_addr_and_namesrv_url_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        Options(namesrv_url="http://host/", namesrv_addr="127.0.0.1:1")
