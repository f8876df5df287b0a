"""Charts: the page, and the numbers that it asks for again and again."""

from starlette.responses import Response

from kerolox.dashboard.page import Page
from kerolox.dashboard.samples import GROUPS_MAX
from kerolox.dashboard.sentences import sentence

# The name of a series, what a chart of it is called, and its unit.
CHARTS = (
    ("in", "Messages in", "/s"),
    ("out", "Messages out", "/s"),
    ("putLatency", "Storing a message, 99 of 100 within", "ms"),
    ("answerTime", "Answer to a question", "ms"),
    ("lag", "Lag of groups", "messages"),
    ("disk", "Disk in use", "%"),
)
# Of more lines those that are highest now are drawn.
LINES_MAX = 8


async def charts_page(page: Page) -> Response:
    seconds = page.desk.options.sample_seconds
    return page.show("charts.html", charts=CHARTS, lines_max=LINES_MAX, groups_max=GROUPS_MAX, seconds=seconds)


async def data(page: Page) -> Response:
    since = page.query("since", "0")
    samples = page.desk.samples
    found = samples.since(int(since) if since.isdecimal() and len(since) < 16 else 0)
    return page.data(
        {
            "samples": [{"millis": it.millis, **it.series()} for it in found],
            "problem": None if samples.error is None else sentence(samples.error),
        }
    )
