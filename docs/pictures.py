"""Recreates the pictures of docs/images. `python -m docs.pictures`; it needs Chromium, and takes some minutes.

Cluster, charts and pipelines are those that `KEEP=1 make demo` leaves up; a message with its trace and dead letters,
which the demo has none of, come from a small cluster like that of tests/dashboard.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser

from kerolox.client import Message
from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.runtime.service import Supervisor
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.chromium import MILLIS_MAX, chromium

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
_WIDTH, _HEIGHT = 1320, 420
_SECONDS = 900


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with chromium() as browser:
            async with demo(Path(folder)) as url:
                await picture(browser, "dashboard", f"{url}/", drawn="in")
                await picture(browser, "dashboard-charts", f"{url}/charts", drawn="disk")
                await picture(browser, "dashboard-pipelines", f"{url}/pipelines")
            async with small(Path(folder)) as (url, message):
                await picture(browser, "dashboard-message", f"{url}{message}", before="Details")
                await picture(browser, "dashboard-dead-letters", f"{url}/dead-letters?group=billing")


async def picture(browser: Browser, name: str, url: str, *, drawn: str = "", before: str = "") -> None:
    """Take a screenshot of a page, whole or up to the heading `before`, once the chart `drawn` has lines."""
    page = await browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
    page.set_default_timeout(MILLIS_MAX)
    await page.goto(url)
    if drawn:
        await page.locator(f".chart[data-series={drawn}] polyline").first.wait_for(state="attached")
    height = await page.evaluate("document.scrollingElement.scrollHeight")
    if before:
        box = await page.get_by_role("heading", name=before).bounding_box()
        assert box is not None
        height = int(box["y"]) - 12
    # The menu has the height of the window.
    await page.set_viewport_size({"width": _WIDTH, "height": height})
    await page.screenshot(path=IMAGES / f"{name}.png")
    await page.close()
    sys.stdout.write(f"wrote docs/images/{name}.png, {_WIDTH} by {height}\n")


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[str]:
    """Yield the address of the dashboard that the demo leaves running."""
    environ = os.environ | {"KEEP": "1", "KEROLOX_HOME": str(folder / "home"), "TMPDIR": str(folder)}
    try:
        printed = await _run(environ, "examples/demo.py")
        found = re.search(r"Dashboard +(http://\S+)", printed)
        if found is None:
            raise SystemExit(f"the demo left no dashboard running:\n{printed}")
        # Keep the path of this clone out of the pictures.
        for file in (folder / "home" / "pipelines").glob("*.json"):
            file.write_text(file.read_text().replace(f"{ROOT}/", ""))
        yield found[1].rstrip("/")
    finally:
        for kept in list(folder.glob("kerolox-demo-*")):  # noqa: ASYNC240
            await _run(environ, "-m", "kerolox", "down", "--data", str(kept / "cluster"))


async def _run(environ: dict[str, str], *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, env=environ, stdout=-1)
    out, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
    return out.decode()


@asynccontextmanager
async def small(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Yield the address of a dashboard, and the path of the page of a traced message."""
    async with Cluster(folder / "small", settings={"traceTopicEnable": "true"}) as cluster:
        address = cluster.namesrv_addr
        sent = await filling.traced(address, "shipping", filling.order(17, note="two teapots"))
        letters = [
            Message("payments", json.dumps({"payment": number, "state": "torn"}).encode(), keys=[f"payment-{number}"])
            for number in range(5)
        ]
        await filling.dead_letters(address, "billing", *letters, Message("payments", b"\x00\xff\x7f", keys=["raw"]))
        dashboard = Dashboard(DashboardOptions(namesrv_addr=address, port=0, pipelines_folder=folder / "none"))
        async with Supervisor(dashboard):
            place = f"{sent.queue.broker_name}:{sent.queue.queue_id}:{sent.queue_offset}"
            yield dashboard.url.rstrip("/"), f"/message?topic=orders&place={place}"


if __name__ == "__main__":
    asyncio.run(main())
