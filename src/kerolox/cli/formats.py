"""How `kerolox consume` prints a message: by a format like kcat's, or as JSON."""

import base64
import re
from collections.abc import Callable

import msgspec

from kerolox.cli.admin.errors import Misused
from kerolox.client.messages import Received

DEFAULT = r"%s\n"

_FIELDS: dict[str, tuple[str, Callable[[Received], bytes]]] = {
    "s": ("body", lambda it: it.body),
    "S": ("size of the body", lambda it: _bytes(len(it.body))),
    "k": ("keys", lambda it: _bytes(" ".join(it.keys))),
    "g": ("tag", lambda it: _bytes(it.tag or "")),
    "t": ("topic", lambda it: _bytes(it.topic)),
    "b": ("broker", lambda it: _bytes(it.queue.broker_name)),
    "p": ("queue", lambda it: _bytes(it.queue.queue_id)),
    "o": ("offset", lambda it: _bytes(it.queue_offset)),
    "T": ("time of storing, in milliseconds", lambda it: _bytes(it.stored_millis)),
    "i": ("id", lambda it: _bytes(it.message_id)),
    "h": ("properties", lambda it: _bytes(",".join(f"{name}={value}" for name, value in it.properties.items()))),
    "%": ("a per cent sign", lambda it: b"%"),
}
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)

HELP = ", ".join(f"%{letter} {name}" for letter, (name, _) in _FIELDS.items())


def formatter(text: str) -> Callable[[Received], bytes]:
    """Returns what prints a message so; Misused if the format has something that is not known."""
    parts: list[Callable[[Received], bytes]] = []
    for field, escape, plain in _TOKEN.findall(text):
        if plain:
            parts.append(_constant(plain.encode(errors="surrogateescape")))
        elif field in _FIELDS:
            parts.append(_FIELDS[field][1])
        elif escape in _ESCAPES:
            parts.append(_constant(_ESCAPES[escape]))
        else:
            raise Misused(f"format {text!r}: {f'%{field}' if not escape else chr(92) + escape} is not known; {HELP}")
    return lambda message: b"".join(part(message) for part in parts)


def _constant(data: bytes) -> Callable[[Received], bytes]:
    return lambda message: data


def _bytes(value: object) -> bytes:
    return str(value).encode()


def as_json(message: Received) -> bytes:
    """Returns a message in a line, which `kerolox send --json` takes; a body that is no text is in Base64.

    Properties that are RocketMQ's own stand elsewhere in it.
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
        "properties": {name: value for name, value in message.properties.items() if name not in _OWN},
        **_body(message.body),
    }
    return msgspec.json.encode(value) + b"\n"


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}


_OWN = frozenset({"KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET"})
