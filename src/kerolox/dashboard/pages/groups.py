"""The pages of consumer groups: lag, members, and the reset of offsets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from kerolox.admin import AdminClient, Progress
from kerolox.dashboard.http.errors import RequestRefused, error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.views import formats
from kerolox.dashboard.views.pagination import ListPage, gather_limited, gather_with_timeout, paginate, user_groups
from kerolox.errors import ConsumerNotOnline, KeroloxError
from kerolox.wire.bodies.clients import ConsumerConnection
from kerolox.wire.bodies.running import ConsumerRunningInfo

# Up to this number, groups are sorted by lag, which takes requests for all of them; more are sorted by name.
_SORTED_BY_LAG_MAX = 200
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
    names = [it for it in user_groups(await page.admin.groups.names()) if part.lower() in it.lower()]
    if len(names) <= _SORTED_BY_LAG_MAX:
        rows = await gather_limited(names, lambda name: _row(page.admin, name))
        rows.sort(key=lambda row: (-(row.lag or 0), row.name))
        shown = paginate(rows, page.page_number())
    else:
        names_page = paginate(names, page.page_number())
        rows = await gather_limited(names_page.items, lambda name: _row(page.admin, name))
        shown = ListPage(rows, names_page.number, names_page.count, names_page.total)
    return page.render("groups.html", shown=shown, part=part)


async def _row(admin: AdminClient, name: str) -> Row:
    try:
        members = await _members(admin, name)
        progress = await admin.offsets.progress(name)
    except KeroloxError as error:
        return Row(name, problem=error_text(error))
    model = (members.message_model or "").lower() if members else ""
    count = len(members.connection_set) if members else 0
    return Row(name, count, model, progress.consume_tps, progress.lag)


async def _members(admin: AdminClient, name: str) -> ConsumerConnection | None:
    try:
        return await admin.connections.consumers(name)
    except ConsumerNotOnline:
        return None


async def group_page(page: Page) -> Response:
    name = page.require("name")
    configs = await page.admin.groups.configs(name)
    problems = []
    try:
        members = await _members(page.admin, name)
    except KeroloxError as error:
        members = None
        problems.append(error_text(error))
    progress = Progress(name, {}, 0.0)
    try:
        progress = await page.admin.offsets.progress(name)
    except KeroloxError as error:
        problems.append(error_text(error))
    client_ids = [it.client_id for it in members.connection_set] if members else []
    infos, member_problems = await _running_infos(page, name, client_ids)
    if member_problems:
        problems.append(
            f"{len(member_problems)} of {len(client_ids)} members did not report their queues, so their lag is unknown."
        )
    owners = {queue: client_id for client_id, info in infos.items() for queue in info.mq_table}
    owned = {queue: replace(it, client_id=owners.get(queue)) for queue, it in progress.queues.items()}
    progress = replace(progress, queues=owned)
    topics = sorted({queue.topic for queue in progress.queues} | set(members.subscription_table if members else ()))
    return page.render(
        "group.html",
        name=name,
        members=members,
        member_problems=member_problems,
        progress=progress,
        queues=list(progress.queues.items())[:_QUEUES_SHOWN_MAX],
        topics=[topic for topic in topics if not topic.startswith("%")],
        config=next(iter(configs.values())),
        brokers=list(configs),
        problems=problems,
        selected_topic=page.query("topic"),
        now=page.context.options.clock.millis(),
    )


async def member_page(page: Page) -> Response:
    """Show the running info of one consumer (GET_CONSUMER_RUNNING_INFO)."""
    name, client = page.require("name"), page.require("client")
    options, has_stacks = page.context.options, page.query("stacks") == "yes"
    [info] = await gather_with_timeout(
        [client],
        lambda it: page.admin.connections.running_info(name, it, has_stacks=has_stacks),
        options.clock,
        options.members_timeout_seconds,
    )
    problem = None if info else f"The member gave {_no_response(page)}: it may be busy, or may have crashed."
    return page.render("member.html", name=name, client=client, info=info, problem=problem)


async def _running_infos(
    page: Page, group: str, clients: Sequence[str]
) -> tuple[dict[str, ConsumerRunningInfo], dict[str, str]]:
    """Return the running infos of the members that respond, and the problems of the others, both by client id."""
    options = page.context.options

    async def ask(client: str) -> ConsumerRunningInfo | KeroloxError:
        try:
            return await page.admin.connections.running_info(group, client)
        except KeroloxError as error:
            return error

    answers = await gather_with_timeout(clients, ask, options.clock, options.members_timeout_seconds)
    infos: dict[str, ConsumerRunningInfo] = {}
    problems: dict[str, str] = {}
    for client, answer in zip(clients, answers, strict=True):
        if isinstance(answer, ConsumerRunningInfo):
            infos[client] = answer
        else:
            problems[client] = error_text(answer) if answer else _no_response(page)
    return infos, problems


def _no_response(page: Page) -> str:
    return f"no response within {page.context.options.members_timeout_seconds:g} s"


async def reset(page: Page) -> Response:
    """Reset the offsets of a group in a topic to the beginning, to the end, or to a time."""
    name, topic = page.require("name", "the group"), page.require("topic", "the topic")
    page.require_confirmation(f"reset the offsets of group {name}")
    # Raises GroupNotFound: resetting the offsets of an unknown group would create it.
    await page.admin.groups.configs(name)
    where = page.field("where")
    if where == "end":
        offsets = await page.admin.offsets.skip_accumulated(name, topic)
    elif where == "beginning":
        offsets = await page.admin.offsets.reset(name, topic, 0)
    elif where == "time":
        offsets = await page.admin.offsets.reset(name, topic, formats.parse_time(page.require("time"), "the time"))
    else:
        raise RequestRefused("choose where to reset the offsets to: the beginning, the end, or a time")
    return page.redirect(
        "/group",
        f"Offsets of group {name} are reset to the {where} in {len(offsets)} queues of {topic}.",
        name=name,
        topic=topic,
    )
