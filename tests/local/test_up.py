"""`kerolox up` in this process."""

import asyncio
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerolox.client import Message, Producer
from kerolox.local import up as module
from kerolox.local.folder import Folder
from kerolox.local.up import Up, UpOptions
from kerolox.runtime.service import Service


@dataclass
class DashboardOptions:
    """A fake with the fields of the real class."""

    namesrv_addr: str
    host: str
    port: int
    users_file: Path | None


class Dashboard(Service):
    """A fake with the interface of the real class, which fails on request."""

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


async def test_the_dashboard_gets_the_name_server_and_its_url_is_in_the_state(
    dashboard: list[Dashboard], tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    with folder.taken():
        async with Up(options(tmp_path), ready_seconds=lambda: 0.25) as up:
            saved = folder.state()

            assert dashboard[0].options.namesrv_addr == up.state.namesrv
            assert saved == up.state
            assert (saved.dashboard, saved.ready_seconds) == ("http://127.0.0.1:4711/", 0.25)

    assert folder.state() is None


async def test_a_failed_dashboard_does_not_stop_the_cluster(
    dashboard: list[Dashboard], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Up(options(tmp_path), ready_seconds=lambda: 0.0) as up:
        waiting = asyncio.create_task(up.wait())

        dashboard[0].fails.set()
        for _ in range(10):
            await asyncio.sleep(0)

        assert "Dashboard failed; the other services continue" in caplog.text
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_dashboard_without_users_listens_on_loopback_only(dashboard: list[Dashboard], tmp_path: Path) -> None:
    open_to_all = {"host": "0.0.0.0", "advertised": "192.0.2.1", "namesrv_port": 0, "broker_port": 0}
    for users_file in (None, tmp_path / "users"):
        changed = UpOptions(data=tmp_path, dashboard_port=0, users_file=users_file, **open_to_all)  # type: ignore[arg-type]
        async with Up(changed, ready_seconds=lambda: 0.0):
            pass

    assert [made.options.host for made in dashboard] == ["127.0.0.1", "0.0.0.0"]


async def test_one_message_uses_little_disk_space(tmp_path: Path) -> None:
    await send_one(tmp_path)

    sizes = [path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(sizes) < 24 * 1024 * 1024


@pytest.mark.parametrize("size", [16 * 1024 * 1024, 128 * 1024 * 1024])
async def test_new_settings_of_an_existing_store_keep_its_file_size(tmp_path: Path, size: int) -> None:
    log = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
    log.parent.mkdir(parents=True)
    log.touch()
    os.truncate(log, size)

    await send_one(tmp_path)

    assert log.stat().st_size == size
    assert f"mappedFileSizeCommitLog={size}\n" in (tmp_path / "conf" / "broker-a.conf").read_text()


async def send_one(directory: Path) -> None:
    with Folder(directory).taken():
        chosen = UpOptions(data=directory, namesrv_port=0, broker_port=0, dashboard_port=None)
        async with (
            Up(chosen, ready_seconds=lambda: 0.0) as up,
            Producer("senders", namesrv_addr=up.state.namesrv) as producer,
        ):
            await producer.send(Message("orders", b"hello"))


def test_unknown_keys_in_settings_files_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = [tmp_path / "conf" / name for name in ("namesrv.conf", "broker-a.conf")]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("listenPrt=1\n")

    Up(options(tmp_path), ready_seconds=lambda: 0.0)

    warnings = [text for text in caplog.messages if "unknown keys" in text]
    assert sorted(warnings) == sorted(f"{file}: unknown keys have no effect: listenPrt" for file in files)
