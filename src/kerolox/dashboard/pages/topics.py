"""The pages of topics: list, routes, queues, offsets and consumer groups."""

from dataclasses import dataclass

from starlette.responses import Response

from kerolox.admin import AdminClient
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX, is_system
from kerolox.dashboard.http.errors import RequestRefused, error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.views import formats
from kerolox.dashboard.views.pagination import gather_limited, paginate
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.topics import Perm

KINDS = ("normal", "retry", "dead letters", "system")
QUEUES_MAX = 1024
# Limit of the queues of one topic that are shown.
_QUEUES_SHOWN_MAX = 512
_PERMS = {"6": "read and write", "4": "read", "2": "write"}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kind: str
    queues: int = 0
    messages: int = 0
    last_millis: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRow:
    name: str
    lag: int | None = None
    problem: str | None = None


async def topics_page(page: Page) -> Response:
    kind = page.query("kind", "normal")
    part = page.query("part")
    names = [name for name in await page.admin.topics.names() if part.lower() in name.lower()]
    kinds = await _kinds(page.admin, names)
    wanted = [name for name in names if kinds[name] == kind or kind == "all"]
    shown = paginate(wanted, page.page_number())
    clusters = sorted((await page.admin.cluster.info()).cluster_addr_table)
    return page.render(
        "topics.html",
        shown=shown,
        rows=await gather_limited(shown.items, lambda name: _row(page.admin, name, kinds[name])),
        kinds=KINDS,
        kind=kind,
        part=part,
        clusters=clusters,
        queues_max=QUEUES_MAX,
    )


async def _kinds(admin: AdminClient, names: list[str]) -> dict[str, str]:
    try:
        system = set(await admin.topics.system_names())
    except KeroloxError:
        # A broker does not answer; names and prefixes identify most system topics.
        system = set()
    return {name: _kind(name, name in system) for name in names}


def _kind(name: str, is_listed: bool) -> str:
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "dead letters"
    return "system" if is_listed or is_system(name) else "normal"


async def _row(admin: AdminClient, name: str, kind: str) -> Row:
    try:
        status = await admin.topics.status(name)
    except KeroloxError as error:
        return Row(name, kind, problem=error_text(error))
    return Row(
        name,
        kind,
        len(status),
        sum(it.max_offset - it.min_offset for it in status.values()),
        max((it.last_update_timestamp for it in status.values()), default=0),
    )


async def topic_page(page: Page) -> Response:
    topic = page.require("name")
    admin = page.admin
    route = await admin.topics.route(topic)
    try:
        status, problem = await admin.topics.status(topic), None
    except KeroloxError as error:
        status, problem = {}, error_text(error)
    try:
        groups, group_problem = await admin.topics.groups(topic), None
    except KeroloxError as error:
        groups, group_problem = [], error_text(error)
    return page.render(
        "topic.html",
        topic=topic,
        kind=_kind(topic, False),
        route=route,
        queues=list(status.items())[:_QUEUES_SHOWN_MAX],
        queue_count=len(status),
        messages=sum(it.max_offset - it.min_offset for it in status.values()),
        problem=problem,
        groups=await gather_limited(groups[:200], lambda group: _group(admin, group, topic)),
        group_problem=group_problem,
        perms=_PERMS,
        queues_max=QUEUES_MAX,
        now=page.context.options.clock.millis(),
    )


async def _group(admin: AdminClient, group: str, topic: str) -> GroupRow:
    try:
        return GroupRow(group, (await admin.offsets.progress(group, topic)).lag)
    except KeroloxError as error:
        return GroupRow(group, problem=error_text(error))


async def create(page: Page) -> Response:
    name = page.require("name", "the topic's name")
    queues = formats.parse_count(page.field("queues", "8"), "the number of queues", 1, QUEUES_MAX)
    brokers = await page.admin.topics.create(
        name, cluster=page.field("cluster") or None, read_queues=queues, write_queues=queues
    )
    return page.redirect("/topic", f"Topic {name} is on {', '.join(brokers)} with {queues} queues each.", name=name)


async def change(page: Page) -> Response:
    """Change the number of queues and the permission on all brokers that have the topic."""
    name = page.require("name")
    queues = formats.parse_count(page.field("queues"), "the number of queues", 1, QUEUES_MAX)
    perm = page.field("perm", "6")
    if perm not in _PERMS:
        raise RequestRefused(f"unknown permission {perm[:20]!r}: expected {', '.join(_PERMS)}")
    for cluster in await page.admin.topics.clusters(name):
        await page.admin.topics.update(
            name, cluster=cluster, read_queues=queues, write_queues=queues, perm=Perm(int(perm))
        )
    return page.redirect("/topic", f"Topic {name} now has {queues} queues on each broker.", name=name)


async def delete(page: Page) -> Response:
    name = page.require("name")
    page.require_confirmation(f"delete topic {name}")
    for cluster in await page.admin.topics.clusters(name):
        await page.admin.topics.delete(name, cluster=cluster)
    return page.redirect("/topics", f"Topic {name} and its messages are deleted.")
