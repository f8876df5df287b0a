"""Sends a message from a form, or an existing message again."""

import base64
import binascii
from collections.abc import Callable

from starlette.responses import Response

from kerolox.client import Message, Producer, SendResult
from kerolox.client.messages import Received
from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.http.page import Page
from kerolox.message import property_names


def _text(text: str) -> bytes:
    # Browsers submit every line end as CRLF.
    return text.replace("\r\n", "\n").encode("utf-8", "replace")


def _base64(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _hex(text: str) -> bytes:
    return binascii.unhexlify("".join(text.split()))


BODIES: dict[str, Callable[[str], bytes]] = {"text": _text, "base64": _base64, "hex": _hex}


async def send(page: Page) -> Response:
    topic = page.require("name")
    # Raises TopicNotFound: a mistyped name must not create a topic.
    await page.admin.topics.route(topic)
    result = await page.context.producer.send(
        Message(
            topic,
            _body(page.form.get("body", [""])[0], page.field("kind", "text")),
            tag=page.field("tag") or None,
            keys=page.field("keys").split(),
            properties=_properties(page.field("properties")),
        )
    )
    return page.redirect("/topic", f"Sent as {result.message_id} to {describe_location(result)}.", name=topic)


def _body(text: str, kind: str) -> bytes:
    if kind not in BODIES:
        raise RequestRefused(f"unknown kind of body {kind[:20]!r}: expected {', '.join(BODIES)}")
    try:
        return BODIES[kind](text)
    except ValueError:
        raise RequestRefused(f"the body is not valid {kind}") from None


def _properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, separator, value = line.partition("=")
        if not separator or not name.strip() or not value.strip():
            raise RequestRefused(f"property {line[:60]!r} does not have the form name=value")
        found[name.strip()] = value.strip()
    return found


async def send_again(producer: Producer, message: Received, topic: str) -> SendResult:
    """Send a message again, with its original unique key and user properties."""
    return await producer.send(
        Message(
            topic,
            message.body,
            tag=message.tag,
            keys=message.keys,
            properties={
                name: value for name, value in message.properties.items() if name not in property_names.RESERVED
            },
            flag=message.flag,
            message_id=message.properties.get(property_names.UNIQ_KEY),
        )
    )


def describe_location(result: SendResult) -> str:
    return f"{result.queue.broker_name}, queue {result.queue.queue_id}, offset {result.queue_offset}"
