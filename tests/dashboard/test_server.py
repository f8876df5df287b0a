import asyncio
import socket
from pathlib import Path

import pytest

from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.errors import ConfigurationError
from kerolox.runtime.service import Supervisor
from tests.dashboard.browsing import visiting

UNREACHABLE = "127.0.0.1:1"


async def test_an_unreachable_cluster_is_reported_on_the_page(tmp_path: Path) -> None:
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE), tmp_path) as visitor:
        assert "is it running there?" in await visitor.see("/")


async def test_a_taken_port_is_a_configuration_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}.*--port"):
            await Dashboard(DashboardOptions(namesrv_addr=UNREACHABLE, port=port)).open()


async def test_listening_on_other_addresses_requires_a_login() -> None:
    with pytest.raises(ConfigurationError, match="no login"):
        await Dashboard(DashboardOptions(namesrv_addr=UNREACHABLE, host="0.0.0.0", port=0)).open()


async def test_a_users_file_without_users_is_a_configuration_error(tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=UNREACHABLE, port=0, users_file=tmp_path / "users.json")

    with pytest.raises(ConfigurationError, match="--add-user"):
        await Dashboard(options).open()


async def test_a_closed_dashboard_releases_its_port() -> None:
    dashboard = Dashboard(DashboardOptions(namesrv_addr=UNREACHABLE, port=0))
    async with Supervisor(dashboard):
        port = int(dashboard.url.rpartition(":")[2])

    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
