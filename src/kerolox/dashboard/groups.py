"""Consumer groups: how far behind they are, who is in them, and where they are to go on."""

from dataclasses import dataclass

from starlette.responses import Response

from kerolox.admin import AdminClient, Progress
from kerolox.dashboard import texts
from kerolox.dashboard.lists import Part, gathered, of_users, paged
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import Refused, sentence
from kerolox.errors import ConsumerNotOnline, KeroloxError
from kerolox.wire.bodies.clients import ConsumerConnection

# Up to so many groups are all looked at, and those most behind come first; more are in order of their names.
_LOOKED_AT_MAX = 200
_QUEUES_SHOWN_MAX = 1000


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    members: int = 0
    model: str = ""
    rate: float = 0.0
    lag: int | None = None
    problem: str | None = None


async def groups_page(page: Page) -> Response:
    part = page.query("part")
    names = [it for it in of_users(await page.admin.groups.names()) if part.lower() in it.lower()]
    if len(names) <= _LOOKED_AT_MAX:
        rows = await gathered(names, lambda name: _row(page.admin, name))
        rows.sort(key=lambda row: (-(row.lag or 0), row.name))
        shown = paged(rows, page.number())
    else:
        some = paged(names, page.number())
        rows = await gathered(some.items, lambda name: _row(page.admin, name))
        shown = Part(rows, some.number, some.count, some.total)
    return page.show("groups.html", shown=shown, part=part)


async def _row(admin: AdminClient, name: str) -> Row:
    try:
        members = await _members(admin, name)
        progress = await admin.offsets.progress(name)
    except KeroloxError as error:
        return Row(name, problem=sentence(error))
    model = (members.message_model or "").lower() if members else ""
    count = len(members.connection_set) if members else 0
    return Row(name, count, model, progress.consume_tps, progress.lag)


async def _members(admin: AdminClient, name: str) -> ConsumerConnection | None:
    try:
        return await admin.connections.consumers(name)
    except ConsumerNotOnline:
        return None


async def group_page(page: Page) -> Response:
    name = page.needed("name")
    configs = await page.admin.groups.configs(name)
    problems = []
    try:
        members = await _members(page.admin, name)
    except KeroloxError as error:
        members = None
        problems.append(sentence(error))
    progress = Progress(name, {}, 0.0)
    try:
        progress = await page.admin.offsets.progress(name)
        # Which member has a queue is asked of the members themselves, who may not answer.
        progress = await page.admin.offsets.progress(name, has_clients=True)
    except KeroloxError as error:
        problems.append(sentence(error))
    topics = sorted({queue.topic for queue in progress.queues} | set(members.subscription_table if members else ()))
    return page.show(
        "group.html",
        name=name,
        members=members,
        progress=progress,
        queues=list(progress.queues.items())[:_QUEUES_SHOWN_MAX],
        topics=[topic for topic in topics if not topic.startswith("%")],
        config=next(iter(configs.values())),
        brokers=list(configs),
        problems=problems,
        chosen=page.query("topic"),
        now=page.desk.options.clock.millis(),
    )


async def member_page(page: Page) -> Response:
    """What one consumer says of itself."""
    name, client = page.needed("name"), page.needed("client")
    info = await page.admin.connections.running_info(name, client, has_stacks=page.query("stacks") == "yes")
    return page.show("member.html", name=name, client=client, info=info)


# What forms do


async def reset(page: Page) -> Response:
    """Has a group go on elsewhere in a topic: at its beginning, at its end, or at a time."""
    name, topic = page.needed("name", "the group"), page.needed("topic", "the topic")
    page.sure(f"have group {name} go on elsewhere")
    # A group that nobody knows would be made by it.
    await page.admin.groups.configs(name)
    where = page.field("where")
    if where == "end":
        offsets = await page.admin.offsets.skip_accumulated(name, topic)
    elif where == "beginning":
        offsets = await page.admin.offsets.reset(name, topic, 0)
    elif where == "time":
        offsets = await page.admin.offsets.reset(name, topic, texts.parse_moment(page.needed("time"), "the time"))
    else:
        raise Refused("say where the group is to go on: at the beginning, at the end, or at a time")
    return page.go(
        "/group", f"Group {name} goes on at the {where} in {len(offsets)} queues of {topic}.", name=name, topic=topic
    )
