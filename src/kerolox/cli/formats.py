"""Formats messages for `kerolox consume`: with a format string like kcat's, or as JSON."""

import base64
import re
from collections.abc import Callable

import msgspec

from kerolox.cli.admin.errors import InvalidUsage
from kerolox.client.messages import Received
from kerolox.runtime.text.terminal import escape_json, escape_line, escape_lines

DEFAULT = r"%s\n"

_FIELDS: dict[str, tuple[str, Callable[[Received], bytes]]] = {
    "s": ("body", lambda it: it.body),
    "S": ("body size", lambda it: _bytes(len(it.body))),
    "k": ("keys", lambda it: _bytes(" ".join(it.keys))),
    "g": ("tag", lambda it: _bytes(it.tag or "")),
    "t": ("topic", lambda it: _bytes(it.topic)),
    "b": ("broker", lambda it: _bytes(it.queue.broker_name)),
    "p": ("queue", lambda it: _bytes(it.queue.queue_id)),
    "o": ("offset", lambda it: _bytes(it.queue_offset)),
    "T": ("store time in milliseconds", lambda it: _bytes(it.stored_millis)),
    "i": ("id", lambda it: _bytes(it.message_id)),
    "h": ("properties", lambda it: _bytes(",".join(f"{name}={value}" for name, value in it.properties.items()))),
    "%": ("percent sign", lambda it: b"%"),
}
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)

HELP = ", ".join(f"%{letter} {name}" for letter, (name, _) in _FIELDS.items())


def formatter(text: str, *, is_terminal: bool = False) -> Callable[[Received], bytes]:
    """Return a function that formats a message; raise InvalidUsage over an unknown field or escape.

    A pipe gets the bytes of the message unchanged, a terminal gets them escaped.
    """
    parts: list[Callable[[Received], bytes]] = []
    for field, escape, plain in _TOKEN.findall(text):
        if plain:
            parts.append(_constant(plain.encode(errors="surrogateescape")))
        elif field in _FIELDS:
            parts.append(_visible(field) if is_terminal else _FIELDS[field][1])
        elif escape in _ESCAPES:
            parts.append(_constant(_ESCAPES[escape]))
        else:
            unknown = f"%{field}" if not escape else f"\\{escape}"
            raise InvalidUsage(f"format {text!r}: unknown {unknown}; known are {HELP}")
    return lambda message: b"".join(part(message) for part in parts)


def _visible(field: str) -> Callable[[Received], bytes]:
    # A body may have several lines, every other field is one line.
    value, escape = _FIELDS[field][1], escape_lines if field == "s" else escape_line
    return lambda message: escape(value(message).decode(errors="backslashreplace")).encode()


def _constant(data: bytes) -> Callable[[Received], bytes]:
    return lambda message: data


def _bytes(value: object) -> bytes:
    return str(value).encode()


def as_json(message: Received) -> bytes:
    """Return a message as a line of JSON that `kerolox send --json` accepts; a body that is not UTF-8 is in Base64.

    `properties` leaves out RocketMQ's own, such as KEYS and TAGS.
    """
    value = {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "id": message.message_id,
        "stored": message.stored_millis,
        "born": message.born_millis,
        "keys": message.keys,
        "tag": message.tag,
        "properties": {name: value for name, value in message.properties.items() if name not in _SYSTEM_PROPERTIES},
        **_body(message.body),
    }
    return escape_json(msgspec.json.encode(value).decode()).encode() + b"\n"


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}


_SYSTEM_PROPERTIES = frozenset(
    {"KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET"}
)
