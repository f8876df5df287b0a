"""Sending: a message that somebody wrote into a form, and one that was sent before."""

import base64
import binascii
from collections.abc import Callable

from starlette.responses import Response

from kerolox.client import Message, Producer, SendResult
from kerolox.client.messages import Received
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import Refused
from kerolox.message import names


def _text(text: str) -> bytes:
    # Forms have every end of a line as two characters, whatever was typed.
    return text.replace("\r\n", "\n").encode("utf-8", "replace")


def _base64(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _hex(text: str) -> bytes:
    return binascii.unhexlify("".join(text.split()))


BODIES: dict[str, Callable[[str], bytes]] = {"text": _text, "base64": _base64, "hex": _hex}


async def send(page: Page) -> Response:
    topic = page.needed("name")
    # Who mistypes a name makes no topic.
    await page.admin.topics.route(topic)
    result = await page.desk.producer.send(
        Message(
            topic,
            _body(page.form.get("body", [""])[0], page.field("kind", "text")),
            tag=page.field("tag") or None,
            keys=page.field("keys").split(),
            properties=_properties(page.field("properties")),
        )
    )
    return page.go("/topic", f"Sent as {result.message_id} to {place(result)}.", name=topic)


def _body(text: str, kind: str) -> bytes:
    if kind not in BODIES:
        raise Refused(f"a body of kind {kind[:20]!r}, and {', '.join(BODIES)} are known")
    try:
        return BODIES[kind](text)
    except ValueError:
        raise Refused(f"the body is not {kind}") from None


def _properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, mark, value = line.partition("=")
        if not mark or not name.strip() or not value.strip():
            raise Refused(f"property {line[:60]!r} is not of the form name=value")
        found[name.strip()] = value.strip()
    return found


async def again(producer: Producer, message: Received, topic: str) -> SendResult:
    """Sends a message a second time, under the id and with the properties that its producer gave it."""
    return await producer.send(
        Message(
            topic,
            message.body,
            tag=message.tag,
            keys=message.keys,
            properties={name: value for name, value in message.properties.items() if name not in names.RESERVED},
            flag=message.flag,
            message_id=message.properties.get(names.UNIQ_KEY),
        )
    )


def place(result: SendResult) -> str:
    return f"{result.queue.broker_name}, queue {result.queue.queue_id}, offset {result.queue_offset}"
