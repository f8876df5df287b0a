"""A real Chromium; records console errors and failed requests, and checks layout and accessibility."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, ConsoleMessage, Page, Response, async_playwright

from tests.apache.requirements import unmet

ARTEFACTS = Path(__file__).parents[2] / "artefacts" / "dashboard"
WIDTHS = {"phone": (360, 740), "desktop": (1440, 900)}
_NARROW_DESKTOP = 1200
# Generous, for loaded machines.
MILLIS_MAX = 60_000
# Finds buttons and table cells that are cut off at an edge.
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
    # Passed rules are not reported: that takes long on a page with many rows.
    "resultTypes": ["violations"],
}


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Skip the test on a machine without Chromium; fails it where KEROLOX_REQUIRE_ALL is set."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        unmet("needs Chromium: no chromium on the PATH, and CHROMIUM names none")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path,
            # The sandbox does not work as root, and containers have little shared memory.
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
        self.errors: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    async def open(self, path: str) -> None:
        await self.page.goto(self._url + path)

    async def check(self, name: str) -> None:
        """Save a screenshot, and asserts that the page has no errors, no overflow and no accessibility violations."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=ARTEFACTS / f"{name}-{self._width}.png", full_page=True)
        assert self.errors == []
        wide = await self.page.evaluate("[document.scrollingElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1], f"{name} is {wide[0]} wide on a screen of {wide[1]}"
        assert await self.page.evaluate(_CUT_OFF) == []
        if self._width == "desktop":
            await self.page.set_viewport_size({"width": _NARROW_DESKTOP, "height": WIDTHS["desktop"][1]})
            assert await self.page.evaluate(_CUT_OFF) == [], f"{name} on a narrow desktop"
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
