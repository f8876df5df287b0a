"""What `kerolox up` puts together, in this process."""

import asyncio
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerolox.local import up as module
from kerolox.local.folder import Folder
from kerolox.local.up import Up, UpOptions
from kerolox.runtime.service import Service


@dataclass
class DashboardOptions:
    """As the real one has them."""

    namesrv_addr: str
    host: str
    port: int
    users_file: Path | None


class Dashboard(Service):
    """Looks like the real one from outside, and fails when told to."""

    made: "list[Dashboard]" = []

    def __init__(self, options: DashboardOptions) -> None:
        self.options = options
        self.url = ""
        self.fails = asyncio.Event()
        Dashboard.made.append(self)

    async def open(self) -> None:
        self.url = f"http://{self.options.host}:{self.options.port}/"

    async def run(self) -> None:
        await self.fails.wait()
        raise RuntimeError("a page is broken")


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Dashboard]]:
    fake = types.ModuleType("kerolox.dashboard.server")
    fake.Dashboard, fake.DashboardOptions = Dashboard, DashboardOptions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kerolox.dashboard.server", fake)
    monkeypatch.setattr(module, "has_dashboard", lambda: True)
    Dashboard.made = []
    yield Dashboard.made
    Dashboard.made = []


def options(directory: Path, users_file: Path | None = None) -> UpOptions:
    return UpOptions(data=directory, namesrv_port=0, broker_port=0, dashboard_port=4711, users_file=users_file)


async def test_the_dashboard_knows_the_name_server_and_is_told_of(dashboard: list[Dashboard], tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.taken():
        async with Up(options(tmp_path), ready_seconds=lambda: 0.25) as up:
            told = folder.state()

            assert dashboard[0].options.namesrv_addr == up.state.namesrv
            assert told == up.state
            assert (told.dashboard, told.ready_seconds) == ("http://127.0.0.1:4711/", 0.25)

    assert folder.state() is None


async def test_a_dashboard_that_fails_leaves_the_cluster_alone(
    dashboard: list[Dashboard], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Up(options(tmp_path), ready_seconds=lambda: 0.0) as up:
        waiting = asyncio.create_task(up.wait())

        dashboard[0].fails.set()
        for _ in range(10):
            await asyncio.sleep(0)

        assert "Dashboard failed; the rest goes on" in caplog.text
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_only_a_dashboard_with_users_serves_others(dashboard: list[Dashboard], tmp_path: Path) -> None:
    open_to_all = {"host": "0.0.0.0", "advertised": "192.0.2.1", "namesrv_port": 0, "broker_port": 0}
    for users_file in (None, tmp_path / "users"):
        changed = UpOptions(data=tmp_path, dashboard_port=0, users_file=users_file, **open_to_all)  # type: ignore[arg-type]
        async with Up(changed, ready_seconds=lambda: 0.0):
            pass

    assert [made.options.host for made in dashboard] == ["127.0.0.1", "0.0.0.0"]
