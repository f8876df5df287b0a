"""The cluster and its brokers."""

import re
from collections.abc import Mapping

from starlette.responses import Response

from kerolox.admin import BrokerStatus, UnknownBroker
from kerolox.dashboard.charts import CHARTS, LINES_MAX
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import sentence
from kerolox.errors import KeroloxError

# Settings that are nobody's to read from a screen.
_SECRET = re.compile("password|secret|credential|authenticationUser|accessKey", re.IGNORECASE)
_HIDDEN = "••••••"


async def cluster_page(page: Page) -> Response:
    try:
        brokers = await page.admin.cluster.brokers()
        problem = None if brokers else "No broker is registered: start one with `kerolox broker -n NAMESERVER`."
    except KeroloxError as error:
        brokers, problem = [], sentence(error)
    alive = [it for it in brokers if it.error is None]
    return page.show(
        "cluster.html",
        brokers=brokers,
        problem=problem,
        alive=alive,
        disk=disk,
        unanswered=[(it, sentence(it.error)) for it in brokers if it.error is not None],
        in_tps=sum(it.in_tps for it in alive),
        out_tps=sum(it.out_tps for it in alive),
        in_today=sum(it.in_today for it in alive if it.is_master),
        out_today=sum(it.out_today for it in alive),
        now=page.desk.options.clock.millis(),
        charts=[chart for chart in CHARTS if chart[0] in ("in", "out")],
        lines_max=LINES_MAX,
        seconds=page.desk.options.sample_seconds,
        name_servers=page.admin.options.name_servers,
    )


async def broker_page(page: Page) -> Response:
    """What a broker says of itself, and how it is set up. Only listed addresses are asked, not any that is given."""
    wanted = page.needed("address")
    brokers = {it.address: it for it in await page.admin.cluster.brokers()}
    if wanted not in brokers:
        raise UnknownBroker(f"no NameServer lists a broker at {wanted!r}")
    broker = brokers[wanted]
    if broker.error is not None:
        raise broker.error
    try:
        settings, problem = await page.admin.configuration.broker(wanted), None
    except KeroloxError as error:
        settings, problem = {}, sentence(error)
    return page.show("broker.html", broker=broker, disk=disk(broker), settings=hidden(settings), problem=problem)


def hidden(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns settings by name, those that are secret without their values."""
    return {key: _HIDDEN if value and _SECRET.search(key) else value for key, value in sorted(settings.items())}


def disk(broker: BrokerStatus) -> float | None:
    """Returns how full the disk of a broker is, from 0 to 1; None if it does not say."""
    try:
        found = float(broker.info.get("commitLogDiskRatio", ""))
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None
