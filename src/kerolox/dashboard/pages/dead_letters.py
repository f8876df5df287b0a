"""The pages of dead letters: list, resend, consume directly and export."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from kerolox.admin import AdminClient
from kerolox.client.messages import Received
from kerolox.client.resource_names import DLQ_PREFIX, dlq_topic
from kerolox.dashboard.http.errors import RequestRefused, StreamAborted, error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.pages import send
from kerolox.dashboard.pages.messages import consume_directly
from kerolox.dashboard.views import body_text
from kerolox.dashboard.views.message_list import newest_messages
from kerolox.dashboard.views.message_location import decompressed_message_at, message_at, original_topic, parse_location
from kerolox.dashboard.views.pagination import gather_limited, paginate
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

SELECTED_MAX = 200
# Time limit for one form: browsers time out, and a consumer may be slow with each message.
_ACT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    group: str
    count: int = 0
    last_millis: int = 0
    problem: str | None = None


async def dead_letters_page(page: Page) -> Response:
    group = page.query("group")
    if group:
        return await _of_group(page, group)
    names = [it.removeprefix(DLQ_PREFIX) for it in await page.admin.topics.names() if it.startswith(DLQ_PREFIX)]
    shown = paginate(names, page.page_number())
    rows = await gather_limited(shown.items, lambda name: _row(page.admin, name))
    return page.render("dead_letters.html", shown=shown, rows=rows)


async def _row(admin: AdminClient, group: str) -> Row:
    try:
        status = (await admin.topics.status(dlq_topic(group))).values()
    except KeroloxError as error:
        return Row(group, problem=error_text(error))
    count = sum(it.max_offset - it.min_offset for it in status)
    return Row(group, count, max((it.last_update_timestamp for it in status), default=0))


async def _of_group(page: Page, group: str) -> Response:
    found, problem = None, None
    try:
        found = await newest_messages(page.context.raw_admin, dlq_topic(group), None, None, page.query("cursor"))
    except TopicNotFound:
        problem = None
    except KeroloxError as error:
        problem = error_text(error)
    total = (await _row(page.admin, group)).count if found else 0
    return page.render(
        "dead_letters_group.html", group=group, topic=dlq_topic(group), found=found, problem=problem, total=total
    )


async def export(page: Page) -> Response:
    """Stream all dead letters of a group as lines of JSON, queue by queue, the oldest first."""
    group = page.require("group", "the group")
    topic = dlq_topic(group)
    queues = (await page.admin.topics.route(topic)).read_queues
    admin = page.context.raw_admin
    # Fixed before the export begins, so that it ends even if new dead letters keep arriving.
    ends = await gather_limited(queues, admin.queues.max_offset)
    return _download(_lines(admin, list(zip(queues, ends, strict=True))), group)


async def _lines(admin: AdminClient, queues: list[tuple[MessageQueue, int]]) -> AsyncIterator[bytes]:
    for queue, end in queues:
        async for message in admin.messages.read(queue, end_offset=end):
            yield body_text.json_line(message)


def _download(lines: AsyncIterator[bytes], group: str) -> Response:
    name = re.sub("[^A-Za-z0-9_-]", "_", group)[:100]
    headers = {"Content-Disposition": f'attachment; filename="dead-letters-{name}.jsonl"'}
    return StreamingResponse(_abort_on_error(lines), media_type="application/x-ndjson", headers=headers)


async def _abort_on_error(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for line in lines:
            yield line
    except KeroloxError as error:
        log.warning("an export of dead letters was aborted: %s", error)
        raise StreamAborted from error


async def act(page: Page) -> Response:
    """Apply an action to the selected dead letters."""
    group = page.require("group", "the group")
    locations = page.form.get("place", [])
    if not locations:
        raise RequestRefused("select at least one dead letter")
    if len(locations) > SELECTED_MAX:
        raise RequestRefused(f"{len(locations)} dead letters are selected, at most {SELECTED_MAX} are allowed")
    action = page.field("action")
    for location in locations:
        parse_location(dlq_topic(group), location)
    if action == "export":
        return _download(_selected_lines(page, group, locations), group)
    if action not in _ACTIONS:
        raise RequestRefused(f"unknown action {action[:20]!r}: expected {', '.join(_ACTIONS)} or export")
    return await _apply_to_each(page, group, locations, _ACTIONS[action])


async def _selected_lines(page: Page, group: str, locations: list[str]) -> AsyncIterator[bytes]:
    for location in locations:
        yield body_text.json_line(await message_at(page, dlq_topic(group), location))


async def _apply_to_each(
    page: Page, group: str, locations: list[str], action: Callable[[Page, str, str], Awaitable[str]]
) -> Response:
    """Apply the action to one message after the other; a failure does not stop the others, the time limit does."""
    done: list[str] = []
    failed: list[str] = []
    clock = page.context.options.clock
    deadline = clock.monotonic() + _ACT_SECONDS
    for location in locations:
        if clock.monotonic() > deadline:
            failed.append(f"the rest was not started within {_ACT_SECONDS:.0f} s: select it again.")
            break
        try:
            done.append(await action(page, group, location))
        except RequestRefused as refused:
            failed.append(f"{location}: {refused.message}")
        except KeroloxError as error:
            failed.append(f"{location}: {error_text(error)}")
    results = (failed or done)[:3]
    more = len(failed or done) - len(results)
    notice = f"Done with {len(done)} of {len(locations)}. " + " ".join(results) + (f" And {more} more." if more else "")
    return page.redirect("/dead-letters", notice, is_bad=bool(failed), group=group)


async def _resend(page: Page, group: str, location: str) -> str:
    message = await decompressed_message_at(page, dlq_topic(group), location)
    target = _target(message, group)
    result = await send.send_again(page.context.producer, message, target)
    return f"{result.message_id} is in {target}."


async def _consume_now(page: Page, group: str, location: str) -> str:
    return await consume_directly(page.admin, group, await message_at(page, dlq_topic(group), location))


def _target(message: Received, group: str) -> str:
    found = original_topic(message.record)
    if found == dlq_topic(group):
        raise RequestRefused("its original topic is unknown")
    return found


_ACTIONS = {"resend": _resend, "hand": _consume_now}
