import asyncio
import socket
from pathlib import Path

import pytest

from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.errors import ConfigurationError
from kerolox.runtime.service import Supervisor
from tests.dashboard.browsing import visiting

NOBODY = "127.0.0.1:1"


async def test_a_dashboard_without_a_cluster_says_so_on_its_page(tmp_path: Path) -> None:
    async with visiting(DashboardOptions(namesrv_addr=NOBODY), tmp_path) as visitor:
        assert "is it running there?" in await visitor.see("/")


async def test_a_port_that_is_taken_is_told_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}.*--port"):
            await Dashboard(DashboardOptions(namesrv_addr=NOBODY, port=port)).open()


async def test_other_machines_are_not_let_in_without_a_login() -> None:
    with pytest.raises(ConfigurationError, match="no login"):
        await Dashboard(DashboardOptions(namesrv_addr=NOBODY, host="0.0.0.0", port=0)).open()


async def test_a_users_file_without_users_is_told_in_a_sentence(tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=NOBODY, port=0, users_file=tmp_path / "users.json")

    with pytest.raises(ConfigurationError, match="--add-user"):
        await Dashboard(options).open()


async def test_a_closed_dashboard_has_let_its_port_go() -> None:
    dashboard = Dashboard(DashboardOptions(namesrv_addr=NOBODY, port=0))
    async with Supervisor(dashboard):
        port = int(dashboard.url.rpartition(":")[2])

    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
