"""Topics: which there are, and each with its routes, queues, offsets and groups."""

from dataclasses import dataclass

from starlette.responses import Response

from kerolox.admin import AdminClient
from kerolox.client.names import DLQ_PREFIX, RETRY_PREFIX, is_system
from kerolox.dashboard import texts
from kerolox.dashboard.lists import gathered, paged
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import Refused, sentence
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.topics import Perm

KINDS = ("normal", "retry", "dead letters", "system")
QUEUES_MAX = 1024
# So many queues of one topic are shown.
_SHOWN_MAX = 512
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
    shown = paged(wanted, page.number())
    clusters = sorted((await page.admin.cluster.info()).cluster_addr_table)
    return page.show(
        "topics.html",
        shown=shown,
        rows=await gathered(shown.items, lambda name: _row(page.admin, name, kinds[name])),
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
        # A broker does not answer; the names themselves tell nearly as much.
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
        return Row(name, kind, problem=sentence(error))
    return Row(
        name,
        kind,
        len(status),
        sum(it.max_offset - it.min_offset for it in status.values()),
        max((it.last_update_timestamp for it in status.values()), default=0),
    )


async def topic_page(page: Page) -> Response:
    topic = page.needed("name")
    admin = page.admin
    route = await admin.topics.route(topic)
    try:
        status, problem = await admin.topics.status(topic), None
    except KeroloxError as error:
        status, problem = {}, sentence(error)
    try:
        groups, group_problem = await admin.topics.groups(topic), None
    except KeroloxError as error:
        groups, group_problem = [], sentence(error)
    return page.show(
        "topic.html",
        topic=topic,
        kind=_kind(topic, False),
        route=route,
        queues=list(status.items())[:_SHOWN_MAX],
        queue_count=len(status),
        messages=sum(it.max_offset - it.min_offset for it in status.values()),
        problem=problem,
        groups=await gathered(groups[:200], lambda group: _group(admin, group, topic)),
        group_problem=group_problem,
        perms=_PERMS,
        queues_max=QUEUES_MAX,
        now=page.desk.options.clock.millis(),
    )


async def _group(admin: AdminClient, group: str, topic: str) -> GroupRow:
    try:
        return GroupRow(group, (await admin.offsets.progress(group, topic)).lag)
    except KeroloxError as error:
        return GroupRow(group, problem=sentence(error))


# What forms do


async def create(page: Page) -> Response:
    name = page.needed("name", "the topic's name")
    queues = texts.parse_count(page.field("queues", "8"), "the number of queues", 1, QUEUES_MAX)
    brokers = await page.admin.topics.create(
        name, cluster=page.field("cluster") or None, read_queues=queues, write_queues=queues
    )
    return page.go("/topic", f"Topic {name} is on {', '.join(brokers)}, with {queues} queues on each.", name=name)


async def change(page: Page) -> Response:
    """Changes queues and permission on every broker that has the topic."""
    name = page.needed("name")
    queues = texts.parse_count(page.field("queues"), "the number of queues", 1, QUEUES_MAX)
    perm = page.field("perm", "6")
    if perm not in _PERMS:
        raise Refused(f"permission {perm[:20]!r}, and {', '.join(_PERMS)} are known")
    for cluster in await page.admin.topics.clusters(name):
        await page.admin.topics.update(
            name, cluster=cluster, read_queues=queues, write_queues=queues, perm=Perm(int(perm))
        )
    return page.go("/topic", f"Topic {name} has {queues} queues on each broker.", name=name)


async def delete(page: Page) -> Response:
    name = page.needed("name")
    page.sure(f"delete topic {name}")
    for cluster in await page.admin.topics.clusters(name):
        await page.admin.topics.delete(name, cluster=cluster)
    return page.go("/topics", f"Topic {name} is deleted, with its messages.")
