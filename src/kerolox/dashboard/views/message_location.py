"""The location of a message in URLs and forms (`broker:queue:offset`), and the message at a location."""

from kerolox.client.messages import Received
from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.views import body_text
from kerolox.errors import KeroloxError
from kerolox.message import property_names
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.queues import MessageQueue

_LOCATION_SIZE_MAX = 400


def parse_location(topic: str, text: str) -> tuple[MessageQueue, int]:
    """Parse `broker:queue:offset`. The broker is a name, never an address to connect to."""
    broker, _, rest = text[:_LOCATION_SIZE_MAX].partition(":")
    queue_id, _, offset = rest.partition(":")
    if not broker or not _is_number(queue_id, 9) or not _is_number(offset, 18):
        raise RequestRefused(f"{text[:80]!r} is not a message location (broker:queue:offset)")
    return MessageQueue(broker, int(queue_id), topic), int(offset)


def _is_number(text: str, size_max: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= size_max


async def message_at(page: Page, topic: str, text: str) -> Received:
    """Return the message at a location, without decompressing its body."""
    queue, offset = parse_location(topic, text)
    return await page.context.raw_admin.messages.at(queue, offset)


async def decompressed_message_at(page: Page, topic: str, text: str) -> Received:
    """Return the message at a location, with its body as it was sent."""
    message = await message_at(page, topic, text)
    try:
        message.body = body_text.decompressed_body(message)
    except KeroloxError as error:
        raise RequestRefused(f"message {message.message_id} cannot be sent again: {error}") from error
    return message


def original_topic(record: Record) -> str:
    """Return the topic that a message was sent to first; it may be stored in a retry, DLQ or system topic now."""
    for name in (property_names.DLQ_ORIGIN_TOPIC, property_names.RETRY_TOPIC, property_names.REAL_TOPIC):
        if found := record.get(name):
            return found
    return record.topic
