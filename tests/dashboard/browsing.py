"""A dashboard on a real socket, and a visitor that handles cookies and form tokens like a browser."""

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

    async def get(self, path: str, status: int = 200, /, **query: Any) -> str:
        """Return the HTML of a page, and remembers the token of its forms."""
        response = await self.client.get(path, params=query or None)
        assert response.status_code == status, response.text
        if found := _TOKEN.search(response.text):
            self.token = found[1]
        return response.text

    async def see(self, path: str, status: int = 200, /, **query: Any) -> str:
        """Return the visible text of a page."""
        return read(await self.get(path, status, **query))

    async def post(self, path: str, status: int = 303, **fields: Any) -> httpx.Response:
        response = await self.client.post(path, data={"token": self.token, **fields})
        assert response.status_code == status, response.text
        return response

    async def do(self, path: str, **fields: Any) -> str:
        """Submit a form, follow the redirect, and return the visible text of that page."""
        return await self.see((await self.post(path, **fields)).headers["location"])


def read(text: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", text.partition("<main")[2].partition("</main>")[0])).split())


@asynccontextmanager
async def visiting(options: DashboardOptions, tmp_path: Path) -> AsyncIterator[Visitor]:
    folder = options.pipelines_folder or tmp_path / "pipelines"
    # Generous timeouts for loaded machines.
    dashboard = Dashboard(
        replace(options, port=0, pipelines_folder=folder, timeout_seconds=30, members_timeout_seconds=30)
    )
    async with (
        Supervisor(dashboard),
        httpx.AsyncClient(base_url=dashboard.url, timeout=60, trust_env=False) as client,
    ):
        yield Visitor(client, dashboard)
