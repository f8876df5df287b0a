"""Where a message lies, as addresses and forms name it; and the message that lies there."""

from kerolox.client.messages import Received
from kerolox.dashboard import bodies
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import Refused
from kerolox.errors import KeroloxError
from kerolox.message import names
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.queues import MessageQueue

_PLACE_SIZE_MAX = 400


def parse(topic: str, text: str) -> tuple[MessageQueue, int]:
    """Returns the queue and the offset that `broker:queue:offset` names. A broker is a name, never an address."""
    broker, _, rest = text[:_PLACE_SIZE_MAX].partition(":")
    queue_id, _, offset = rest.partition(":")
    if not broker or not _is_number(queue_id, 9) or not _is_number(offset, 18):
        raise Refused(f"{text[:80]!r} is no place of a message")
    return MessageQueue(broker, int(queue_id), topic), int(offset)


def _is_number(text: str, size_max: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= size_max


async def message_at(page: Page, topic: str, text: str) -> Received:
    """Returns the message there, its body as it is stored."""
    queue, offset = parse(topic, text)
    return await page.desk.stored.messages.at(queue, offset)


async def whole_at(page: Page, topic: str, text: str) -> Received:
    """Returns the message there, its body as it was sent."""
    message = await message_at(page, topic, text)
    try:
        message.body = bodies.restored(message)
    except KeroloxError as error:
        raise Refused(f"message {message.message_id} cannot be sent again: {error}") from error
    return message


def origin(record: Record) -> str:
    """Returns the topic that a message was sent to first, wherever it lies now."""
    for name in (names.DLQ_ORIGIN_TOPIC, names.RETRY_TOPIC, names.REAL_TOPIC):
        if found := record.get(name):
            return found
    return record.topic
