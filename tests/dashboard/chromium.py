"""A real Chromium that notes what its console says, what it could not load and what an accessibility checker finds."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, Response, async_playwright

from tests.apache.requirements import unmet

ARTEFACTS = Path(__file__).parents[2] / "artefacts" / "dashboard"
WIDTHS = {"phone": (360, 740), "desk": (1440, 900)}
_NARROW_DESK = 1200
# A loaded machine takes its time.
MILLIS_MAX = 60_000
# What can be pressed, or is read in a list, and lies beyond an edge where it is cut off.
_CUT_OFF = """() => {
  const isCut = it => {
    const inner = it.getBoundingClientRect();
    for (let around = it.parentElement; around; around = around.parentElement) {
      const outer = around.getBoundingClientRect();
      const cuts = around === document.body || getComputedStyle(around).overflowX !== "visible";
      if (cuts && (inner.left < outer.left - 1 || inner.right > outer.right + 1)) return true;
    }
    return it.scrollWidth > it.clientWidth + 1;
  };
  const found = [...document.querySelectorAll("button, .button, td.body, .timeline span, .steps td")];
  return found.filter(it => it.checkVisibility() && isCut(it)).map(it => it.textContent.trim());
}"""
_RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]},
    # What passes need not be told, which takes long on a page of many rows.
    "resultTypes": ["violations"],
}


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Skips the test on a machine without Chromium; fails it where KEROLOX_REQUIRE_ALL is set."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        unmet("needs Chromium: no chromium on the PATH, and CHROMIUM names none")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path,
            # Root has no sandbox, and a container little shared memory.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            timeout=MILLIS_MAX,
        )
        try:
            yield browser
        finally:
            await browser.close()


class Window:
    """A page of the browser at one width."""

    def __init__(self, page: Page, url: str, width: str) -> None:
        self.page = page
        self._url = url
        self._width = width
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("response", self._answered)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    async def open(self, path: str) -> None:
        await self.page.goto(self._url + path)

    async def check(self, name: str) -> None:
        """Keeps a picture, and asserts that nothing complains, sticks out at the side, or is hard to use or to see."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=ARTEFACTS / f"{name}-{self._width}.png", full_page=True)
        assert self.complaints == []
        wide = await self.page.evaluate("[document.scrollingElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1], f"{name} is {wide[0]} wide on a screen of {wide[1]}"
        assert await self.page.evaluate(_CUT_OFF) == []
        if self._width == "desk":
            await self.page.set_viewport_size({"width": _NARROW_DESK, "height": WIDTHS["desk"][1]})
            assert await self.page.evaluate(_CUT_OFF) == [], f"{name} on a narrow desk"
        found = await Axe().run(self.page, options=_RULES)
        violations = found.response["violations"]
        assert violations == [], [
            (it["id"], it["help"], [node["html"][:200] for node in it["nodes"]]) for it in violations
        ]


@asynccontextmanager
async def window(browser: Browser, url: str, width: str) -> AsyncIterator[Window]:
    w, h = WIDTHS[width]
    context = await browser.new_context(viewport={"width": w, "height": h}, accept_downloads=True)
    context.set_default_timeout(MILLIS_MAX)
    try:
        yield Window(await context.new_page(), url, width)
    finally:
        await context.close()
