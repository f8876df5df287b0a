"""Fixtures: a server, a client and a processor with default settings."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from kerolox.remoting.client import Client
from kerolox.remoting.server.server import Server
from kerolox.remoting.tls import ServerTls, TlsFiles
from tests.loops import BOTH, Loops
from tests.remoting.support import Echo, issue, serving


def pytest_asyncio_loop_factories() -> Loops:
    return BOTH


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def server(echo: Echo) -> AsyncIterator[Server]:
    async with serving(echo) as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client() as client:
        yield client


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    """A certificate for 127.0.0.1, with its key beside it."""
    return issue(authority, tmp_path, "127.0.0.1")


@pytest.fixture
def server_tls(tls_files: TlsFiles) -> ServerTls:
    return ServerTls(tls_files)


@pytest.fixture
def trust(authority: trustme.CA, tmp_path: Path) -> Path:
    """The file with the authority's own certificate."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path
