"""The charts page, and the samples that its script polls."""

from starlette.responses import Response

from kerolox.dashboard.http.errors import error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.sampler import GROUPS_MAX

# (name of the series, title of the chart, unit)
CHARTS = (
    ("in", "Messages in", "/s"),
    ("out", "Messages out", "/s"),
    ("putLatency", "Put latency, 99th percentile", "ms"),
    ("answerTime", "Response time of brokers", "ms"),
    ("lag", "Consumer lag", "messages"),
    ("disk", "Disk usage", "%"),
)
# A chart with more lines shows those with the highest current values.
LINES_MAX = 8


async def charts_page(page: Page) -> Response:
    seconds = page.context.options.sample_seconds
    return page.render("charts.html", charts=CHARTS, lines_max=LINES_MAX, groups_max=GROUPS_MAX, seconds=seconds)


async def data(page: Page) -> Response:
    since = page.query("since", "0")
    sampler = page.context.sampler
    samples = sampler.since(int(since) if since.isdecimal() and len(since) < 16 else 0)
    return page.json(
        {
            "samples": [{"millis": it.millis, **it.series()} for it in samples],
            "problem": None if sampler.error is None else error_text(sampler.error),
        }
    )
