"""Messages: found by topic and time, by key or by id; each with its body, its way and its trace."""

from starlette.responses import Response

from kerolox.admin import AdminClient, MessageNotFound, Track
from kerolox.client.messages import Received
from kerolox.client.trace import TRACE_TOPIC
from kerolox.dashboard import bodies, sending, texts, timeline
from kerolox.dashboard.browse import Found, newest, row
from kerolox.dashboard.page import Page
from kerolox.dashboard.places import message_at, origin, whole_at
from kerolox.dashboard.sentences import Refused, sentence
from kerolox.errors import ConsumerNotOnline, KeroloxError, TopicNotFound
from kerolox.message import hosts
from kerolox.message.errors import CompressionError, IdError
from kerolox.message.ids import parse_offset_id


async def messages_page(page: Page) -> Response:
    topic = page.query("topic")
    found, problem = None, None
    try:
        if topic or page.query("id"):
            found = await _found(page, topic)
    except Refused as refused:
        problem = refused.sentence
    except KeroloxError as error:
        problem = sentence(error)
    query = {name: page.query(name) for name in ("topic", "key", "id", "begin", "end")}
    return page.show(
        "messages.html",
        found=found,
        problem=problem,
        query=query,
        names=await _names(page.admin),
    )


async def _names(admin: AdminClient) -> list[str]:
    try:
        return (await admin.topics.names())[:1000]
    except KeroloxError:
        return []


async def _found(page: Page, topic: str) -> Found:
    if message_id := page.query("id"):
        messages = await _by_id(page, topic, message_id)
        return Found([row(it) for it in messages], None, 0)
    begin = texts.parse_moment(page.query("begin"), "from") if page.query("begin") else None
    # To the end of the second that the form can name.
    end = texts.parse_moment(page.query("end"), "to") + 999 if page.query("end") else None
    if key := page.query("key"):
        messages = await page.desk.stored.messages.by_key(topic, key, begin=begin or 0, end=end or 2**63 - 1)
        return Found([row(it) for it in reversed(messages)], None, 0)
    return await newest(page.desk.stored, topic, begin, end, page.query("cursor"))


async def _by_id(page: Page, topic: str, message_id: str) -> list[Received]:
    """An id that says where a message lies names a broker's address: one of this cluster, or it is not asked."""
    messages = page.desk.stored.messages
    if topic and (found := await messages.by_unique_key(topic, message_id)):
        return found
    try:
        host, _ = parse_offset_id(message_id)
    except IdError:
        if not topic:
            raise Refused("by the id that its producer gave it a message is found with its topic") from None
        raise MessageNotFound(f"no broker of topic {topic!r} has a message of id {message_id}") from None
    info = await page.admin.cluster.info()
    known = {at for data in info.broker_addr_table.values() for at in data.broker_addrs.values()}
    if hosts.to_text(host) not in known:
        raise MessageNotFound(f"no broker of topic {topic!r} has a message of id {message_id}")
    return [await messages.by_id(message_id)]


async def message_page(page: Page) -> Response:
    topic, place = page.needed("topic"), page.needed("place")
    message = await message_at(page, topic, place)
    try:
        body, problem = bodies.restored(message), None
    except CompressionError as error:
        body, problem = message.record.body, sentence(error)
    tracks, track_problem = await _tracks(page.admin, message)
    steps, trace_problem = await _steps(page.admin, message.message_id)
    return page.show(
        "message.html",
        message=message,
        topic=topic,
        place=place,
        origin=origin(message.record),
        size=len(body),
        stored_size=len(message.record.body),
        is_compressed=bodies.is_compressed(message),
        forms=bodies.forms(body),
        shown_max=bodies.SHOWN_SIZE_MAX,
        problem=problem,
        tracks=tracks,
        track_problem=track_problem,
        steps=steps,
        bars=timeline.bars(steps),
        trace_problem=trace_problem,
        width=timeline.WIDTH,
    )


async def _tracks(admin: AdminClient, message: Received) -> tuple[list[Track], str | None]:
    try:
        return await admin.tracks.of_message(message), None
    except KeroloxError as error:
        return [], sentence(error)


async def _steps(admin: AdminClient, message_id: str) -> tuple[list[timeline.Step], str | None]:
    try:
        return timeline.steps(await admin.traces.of_message(message_id)), None
    except TopicNotFound:
        return [], f"There is no topic {TRACE_TOPIC} for traces: brokers make it with traceTopicEnable=true."
    except KeroloxError as error:
        return [], sentence(error)


# What forms do


async def resend(page: Page) -> Response:
    topic, place = page.needed("topic"), page.needed("place")
    message = await whole_at(page, topic, place)
    target = origin(message.record)
    result = await sending.again(page.desk.producer, message, target)
    said = f"Sent again as {result.message_id} to {target}: {sending.place(result)}."
    return page.go("/message", said, topic=topic, place=place)


async def hand(page: Page) -> Response:
    """Has a member of a group consume a message now, whatever its progress."""
    topic, place, group = page.needed("topic"), page.needed("place"), page.needed("group", "the group")
    message = await message_at(page, topic, place)
    told = await handed(page.admin, group, message)
    return page.go("/message", told, topic=topic, place=place)


async def handed(admin: AdminClient, group: str, message: Received) -> str:
    """Returns how it went, in a sentence; ConsumerNotOnline if there is nobody to hand it to."""
    clients = (await admin.connections.consumers(group)).connection_set
    if not clients:
        raise ConsumerNotOnline(f"nobody of group {group!r} is connected")
    result = await admin.messages.consume_directly(group, clients[0].client_id, message)
    remark = f": {result.remark[:300]}" if result.remark else ""
    return (
        f"{clients[0].client_id} was handed {message.message_id}, and ended with "
        f"{result.consume_result} after {result.spent_time_mills} ms{remark}."
    )
