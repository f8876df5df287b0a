"""A dashboard on a real socket, and someone who uses it as a browser does: with cookies, and with forms' tokens."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.runtime.service import Supervisor

_TOKEN = re.compile('name="token" value="([^"]+)"')
_TAG = re.compile("<[^>]+>")


class Visitor:
    def __init__(self, client: httpx.AsyncClient, dashboard: Dashboard) -> None:
        self.client = client
        self.dashboard = dashboard
        self.token = ""

    async def get(self, path: str, status: int = 200, **query: Any) -> str:
        """Returns the page; its forms' token is kept."""
        answer = await self.client.get(path, params=query or None)
        assert answer.status_code == status, answer.text
        if found := _TOKEN.search(answer.text):
            self.token = found[1]
        return answer.text

    async def see(self, path: str, status: int = 200, **query: Any) -> str:
        """Returns what of the page can be read."""
        return read(await self.get(path, status, **query))

    async def post(self, path: str, status: int = 303, **fields: Any) -> httpx.Response:
        answer = await self.client.post(path, data={"token": self.token, **fields})
        assert answer.status_code == status, answer.text
        return answer

    async def do(self, path: str, **fields: Any) -> str:
        """Sends a form, follows to where it leads, and returns what can be read there."""
        return await self.see((await self.post(path, **fields)).headers["location"])


def read(text: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", text.partition("<main")[2].partition("</main>")[0])).split())


@asynccontextmanager
async def visiting(options: DashboardOptions, tmp_path: Path) -> AsyncIterator[Visitor]:
    folder = options.pipelines_folder or tmp_path / "pipelines"
    # Brokers on a loaded machine take their time.
    dashboard = Dashboard(replace(options, port=0, pipelines_folder=folder, timeout_seconds=30))
    async with (
        Supervisor(dashboard),
        httpx.AsyncClient(base_url=dashboard.url, timeout=60, trust_env=False) as client,
    ):
        yield Visitor(client, dashboard)
