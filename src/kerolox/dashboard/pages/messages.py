"""The pages of messages: search by topic and time, key or id; body, trace and consumption of a message."""

import contextlib
from collections.abc import Iterator

from starlette.responses import Response

from kerolox.admin import AdminClient, MessageNotFound, Track
from kerolox.client.messages import Received
from kerolox.client.tracing.trace_format import TRACE_TOPIC
from kerolox.dashboard.http.errors import RequestRefused, error_text
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.pages import send
from kerolox.dashboard.views import body_text, formats, trace_timeline
from kerolox.dashboard.views.message_list import MessageListPage, newest_messages, to_row
from kerolox.dashboard.views.message_location import decompressed_message_at, message_at, original_topic
from kerolox.errors import ConfigurationError, ConsumerNotOnline, KeroloxError, TopicNotFound
from kerolox.message import hosts
from kerolox.message.errors import CompressionError, IdError
from kerolox.message.ids import parse_offset_id
from kerolox.wire.bodies.routes import BrokerData

_PORT_MAX = 65535
_TOPIC_NEEDED = "if it is the unique key that the producer gave the message, enter the topic as well"


async def messages_page(page: Page) -> Response:
    topic = page.query("topic")
    found, problem = None, None
    try:
        if not topic and page.query("key") and not page.query("id"):
            raise RequestRefused("a key is looked up in one topic: enter the topic as well")
        if topic or page.query("id"):
            found = await _search(page, topic)
    except RequestRefused as refused:
        problem = refused.message
    except KeroloxError as error:
        problem = error_text(error)
    query = {name: page.query(name) for name in ("topic", "key", "id", "begin", "end")}
    return page.render(
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


async def _search(page: Page, topic: str) -> MessageListPage:
    if message_id := page.query("id"):
        messages = await _by_id(page, topic, message_id)
        return MessageListPage([to_row(it) for it in messages], None, 0)
    begin = formats.parse_time(page.query("begin"), "from") if page.query("begin") else None
    # The form has no fractions of a second: include the whole last second.
    end = formats.parse_time(page.query("end"), "to") + 999 if page.query("end") else None
    if key := page.query("key"):
        messages = await page.context.raw_admin.messages.by_key(topic, key, begin=begin or 0, end=end or 2**63 - 1)
        return MessageListPage([to_row(it) for it in reversed(messages)], None, 0)
    return await newest_messages(page.context.raw_admin, topic, begin, end, page.query("cursor"))


async def _by_id(page: Page, topic: str, message_id: str) -> list[Received]:
    """Find a message by its unique key, which needs a topic, or by its offset message id, which does not.

    An offset message id contains a broker's address. It is contacted only if it belongs to this cluster.
    """
    messages = page.context.raw_admin.messages
    if topic and (found := await messages.by_unique_key(topic, message_id)):
        return found
    try:
        host, _ = parse_offset_id(message_id)
    except IdError:
        host = None
    # Both kinds of id have 32 or 56 digits. A unique key has a process id where an offset message id has a port.
    if host is None or not 0 < hosts.unpack(host)[1] <= _PORT_MAX:
        if not topic:
            raise RequestRefused(f"{message_id[:80]!r} is not an offset message id; {_TOPIC_NEEDED}")
        raise MessageNotFound(f"no broker of topic {topic!r} has a message of id {message_id}")
    info = await page.admin.cluster.info()
    if host not in (known for data in info.broker_addr_table.values() for known in _hosts(data)):
        text = f"no broker of this cluster is at {hosts.to_text(host)}, the address in id {message_id}"
        raise MessageNotFound(text if topic else f"{text}; {_TOPIC_NEEDED}")
    return [await messages.by_id(message_id)]


def _hosts(data: BrokerData) -> Iterator[hosts.Host]:
    """Yield the addresses of a broker, packed because an IPv6 address can be written in several ways."""
    for address in data.broker_addrs.values():
        with contextlib.suppress(ConfigurationError):
            yield hosts.parse(address)


async def message_page(page: Page) -> Response:
    topic, location = page.require("topic"), page.require("place")
    message = await message_at(page, topic, location)
    try:
        body, problem = body_text.decompressed_body(message), None
    except CompressionError as error:
        body, problem = message.record.body, error_text(error)
    tracks, track_problem = await _tracks(page.admin, message)
    steps, trace_problem = await _steps(page.admin, message.message_id)
    return page.render(
        "message.html",
        message=message,
        topic=topic,
        location=location,
        original_topic=original_topic(message.record),
        size=len(body),
        stored_size=len(message.record.body),
        is_compressed=body_text.is_compressed(message),
        renderings=body_text.renderings(body),
        shown_max=body_text.SHOWN_SIZE_MAX,
        problem=problem,
        tracks=tracks,
        track_problem=track_problem,
        steps=steps,
        bars=trace_timeline.bars(steps),
        trace_problem=trace_problem,
        width=trace_timeline.WIDTH,
    )


async def _tracks(admin: AdminClient, message: Received) -> tuple[list[Track], str | None]:
    try:
        return await admin.tracks.of_message(message), None
    except KeroloxError as error:
        return [], error_text(error)


async def _steps(admin: AdminClient, message_id: str) -> tuple[list[trace_timeline.Step], str | None]:
    try:
        return trace_timeline.steps(await admin.traces.of_message(message_id)), None
    except TopicNotFound:
        return [], f"There is no topic {TRACE_TOPIC}: brokers create it with traceTopicEnable=true."
    except KeroloxError as error:
        return [], error_text(error)


async def resend(page: Page) -> Response:
    topic, location = page.require("topic"), page.require("place")
    message = await decompressed_message_at(page, topic, location)
    target = original_topic(message.record)
    result = await send.send_again(page.context.producer, message, target)
    notice = f"Sent again as {result.message_id} to {target}: {send.describe_location(result)}."
    return page.redirect("/message", notice, topic=topic, place=location)


async def consume_now(page: Page) -> Response:
    topic, location, group = page.require("topic"), page.require("place"), page.require("group", "the group")
    message = await message_at(page, topic, location)
    notice = await consume_directly(page.admin, group, message)
    return page.redirect("/message", notice, topic=topic, place=location)


async def consume_directly(admin: AdminClient, group: str, message: Received) -> str:
    """Make a member of a group consume a message now, whatever its offset (CONSUME_MESSAGE_DIRECTLY).

    Returns a error_text about the result; ConsumerNotOnline if no member is connected.
    """
    clients = (await admin.connections.consumers(group)).connection_set
    if not clients:
        raise ConsumerNotOnline(f"no consumer of group {group!r} is connected")
    result = await admin.messages.consume_directly(group, clients[0].client_id, message)
    remark = f": {result.remark[:300]}" if result.remark else ""
    return (
        f"{clients[0].client_id} consumed {message.message_id} with result "
        f"{result.consume_result} in {result.spent_time_mills} ms{remark}."
    )
