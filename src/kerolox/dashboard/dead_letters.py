"""Dead letters: what groups gave up on; looked at, sent again, handed over and exported."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from kerolox.admin import AdminClient
from kerolox.client.messages import Received
from kerolox.client.names import DLQ_PREFIX, dlq_topic
from kerolox.dashboard import bodies, sending
from kerolox.dashboard.browse import newest
from kerolox.dashboard.lists import gathered, paged
from kerolox.dashboard.messages import handed
from kerolox.dashboard.page import Page
from kerolox.dashboard.places import message_at, origin, parse, whole_at
from kerolox.dashboard.sentences import Cut, Refused, sentence
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

CHOSEN_MAX = 200
# A browser does not wait for ever, and a consumer may take its time with each.
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
    shown = paged(names, page.number())
    rows = await gathered(shown.items, lambda name: _row(page.admin, name))
    return page.show("dead_letters.html", shown=shown, rows=rows)


async def _row(admin: AdminClient, group: str) -> Row:
    try:
        status = (await admin.topics.status(dlq_topic(group))).values()
    except KeroloxError as error:
        return Row(group, problem=sentence(error))
    count = sum(it.max_offset - it.min_offset for it in status)
    return Row(group, count, max((it.last_update_timestamp for it in status), default=0))


async def _of_group(page: Page, group: str) -> Response:
    found, problem = None, None
    try:
        found = await newest(page.desk.stored, dlq_topic(group), None, None, page.query("cursor"))
    except TopicNotFound:
        problem = None
    except KeroloxError as error:
        problem = sentence(error)
    total = (await _row(page.admin, group)).count if found else 0
    return page.show(
        "dead_letters_of.html", group=group, topic=dlq_topic(group), found=found, problem=problem, total=total
    )


# All of them


async def export(page: Page) -> Response:
    """Streams all dead letters of a group, the oldest of each queue first, as lines of JSON."""
    group = page.needed("group", "the group")
    topic = dlq_topic(group)
    queues = (await page.admin.topics.route(topic)).read_queues
    admin = page.desk.stored
    # What comes meanwhile is for the next time.
    ends = await gathered(queues, admin.queues.max_offset)
    return _download(_lines(admin, list(zip(queues, ends, strict=True))), group)


async def _lines(admin: AdminClient, queues: list[tuple[MessageQueue, int]]) -> AsyncIterator[bytes]:
    for queue, end in queues:
        async for message in admin.messages.read(queue, end_offset=end):
            yield bodies.line(message)


def _download(lines: AsyncIterator[bytes], group: str) -> Response:
    name = re.sub("[^A-Za-z0-9_-]", "_", group)[:100]
    headers = {"Content-Disposition": f'attachment; filename="dead-letters-{name}.jsonl"'}
    return StreamingResponse(_whole_or_cut(lines), media_type="application/x-ndjson", headers=headers)


async def _whole_or_cut(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for line in lines:
            yield line
    except KeroloxError as error:
        log.warning("an export of dead letters was cut off: %s", error)
        raise Cut from error


# Those that were chosen


async def act(page: Page) -> Response:
    group = page.needed("group", "the group")
    places = page.form.get("place", [])
    if not places:
        raise Refused("choose at least one dead letter")
    if len(places) > CHOSEN_MAX:
        raise Refused(f"{len(places)} dead letters, at most {CHOSEN_MAX} at a time are allowed")
    action = page.field("action")
    for place in places:
        parse(dlq_topic(group), place)
    if action == "export":
        return _download(_chosen(page, group, places), group)
    if action not in _ACTIONS:
        raise Refused(f"what to do is not {action[:20]!r}, but {', '.join(_ACTIONS)} or export")
    return await _each(page, group, places, _ACTIONS[action])


async def _chosen(page: Page, group: str, places: list[str]) -> AsyncIterator[bytes]:
    for place in places:
        yield bodies.line(await message_at(page, dlq_topic(group), place))


async def _each(
    page: Page, group: str, places: list[str], action: Callable[[Page, str, str], Awaitable[str]]
) -> Response:
    """Does it to each, one after the other; what went wrong with one does not stop the others, but the time may."""
    done: list[str] = []
    failed: list[str] = []
    clock = page.desk.options.clock
    deadline = clock.monotonic() + _ACT_SECONDS
    for place in places:
        if clock.monotonic() > deadline:
            failed.append(f"after {_ACT_SECONDS:.0f} s the rest was not begun: choose it again.")
            break
        try:
            done.append(await action(page, group, place))
        except Refused as refused:
            failed.append(f"{place}: {refused.sentence}")
        except KeroloxError as error:
            failed.append(f"{place}: {sentence(error)}")
    said = f"Done with {len(done)} of {len(places)}. "
    told = (failed or done)[:3]
    more = len(failed or done) - len(told)
    said += " ".join(told) + (f" And {more} more." if more else "")
    return page.go("/dead-letters", said, is_bad=bool(failed), group=group)


async def _resend(page: Page, group: str, place: str) -> str:
    message = await whole_at(page, dlq_topic(group), place)
    target = _target(message, group)
    result = await sending.again(page.desk.producer, message, target)
    return f"{result.message_id} is in {target}."


async def _hand(page: Page, group: str, place: str) -> str:
    return await handed(page.admin, group, await message_at(page, dlq_topic(group), place))


def _target(message: Received, group: str) -> str:
    found = origin(message.record)
    if found == dlq_topic(group):
        raise Refused("it does not say to which topic it was sent")
    return found


_ACTIONS = {"resend": _resend, "hand": _hand}
