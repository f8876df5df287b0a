"""The pages of the cluster and of a broker."""

import re
from collections.abc import Mapping

from starlette.responses import Response

from kerolox.admin import BrokerStatus, UnknownBroker
from kerolox.dashboard.http.errors import error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.pages.charts import CHARTS, LINES_MAX
from kerolox.errors import KeroloxError

# Settings whose values are not shown.
_SECRET = re.compile("password|secret|credential|authenticationUser|accessKey", re.IGNORECASE)
_HIDDEN = "••••••"


async def cluster_page(page: Page) -> Response:
    try:
        brokers = await page.admin.cluster.brokers()
        problem = None if brokers else "No broker is registered: start one with `kerolox broker -n NAMESERVER`."
    except KeroloxError as error:
        brokers, problem = [], error_text(error)
    alive = [it for it in brokers if it.error is None]
    return page.render(
        "cluster.html",
        brokers=brokers,
        problem=problem,
        alive=alive,
        disk=disk,
        unanswered=[(it, error_text(it.error)) for it in brokers if it.error is not None],
        in_tps=sum(it.in_tps for it in alive),
        out_tps=sum(it.out_tps for it in alive),
        in_today=sum(it.in_today for it in alive if it.is_master),
        out_today=sum(it.out_today for it in alive),
        now=page.context.options.clock.millis(),
        charts=[chart for chart in CHARTS if chart[0] in ("in", "out")],
        lines_max=LINES_MAX,
        seconds=page.context.options.sample_seconds,
        name_servers=page.admin.options.name_servers,
    )


async def broker_page(page: Page) -> Response:
    """Show runtime info and configuration of a broker. Only addresses that a NameServer lists are contacted."""
    wanted = page.require("address")
    brokers = {it.address: it for it in await page.admin.cluster.brokers()}
    if wanted not in brokers:
        raise UnknownBroker(f"no NameServer lists a broker at {wanted!r}")
    broker = brokers[wanted]
    if broker.error is not None:
        raise broker.error
    try:
        settings, problem = await page.admin.configuration.broker(wanted), None
    except KeroloxError as error:
        settings, problem = {}, error_text(error)
    return page.render("broker.html", broker=broker, disk=disk(broker), settings=redact(settings), problem=problem)


def redact(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings sorted by name, with the values of secret ones hidden."""
    return {key: _HIDDEN if value and _SECRET.search(key) else value for key, value in sorted(settings.items())}


def disk(broker: BrokerStatus) -> float | None:
    """Return the disk usage of a broker from 0 to 1; None if it does not report it."""
    try:
        found = float(broker.info.get("commitLogDiskRatio", ""))
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None
