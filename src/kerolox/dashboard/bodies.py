"""Bodies of messages as people can read them: as JSON, text or hexadecimal; and as lines that lose nothing."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from kerolox.client.messages import BODY_SIZE_MAX, Received
from kerolox.dashboard.sentences import sentence
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.message.sysflag import COMPRESSED
from kerolox.wire.bodies.queues import MessageQueue

# Of a longer body the beginning is shown.
SHOWN_SIZE_MAX = 256 * 1024
_HEX_SIZE_MAX = 16 * 1024
_PREVIEW_SIZE = 120
# For a line in a list a body is restored up to this.
_PREVIEW_RESTORED_MAX = 1024 * 1024


def as_stored(record: Record, queue: MessageQueue) -> Received:
    """Returns a message whose body is still compressed, if it was: a list of them may be all that a memory holds."""
    return Received(record, queue, record.topic, record.body, record.reconsume_times)


def restored(message: Received, size_max: int = BODY_SIZE_MAX) -> bytes:
    """Returns the body as it was sent; CompressionError if it is damaged or longer."""
    return decompress(message.record.body, message.record.sys_flag, size_max)


def forms(body: bytes) -> dict[str, str]:
    """Returns the body in each form in which it makes sense, the best first."""
    found: dict[str, str] = {}
    text = _text(body)
    if text is not None and (pretty := _json(text)) is not None:
        found["JSON"] = pretty[:SHOWN_SIZE_MAX]
    if text is not None:
        found["Text"] = text[:SHOWN_SIZE_MAX]
    found["Hexadecimal"] = dump(body[:_HEX_SIZE_MAX])
    return found


def preview(message: Received) -> str:
    """Returns the beginning of a body, in a line."""
    try:
        body = restored(message, _PREVIEW_RESTORED_MAX)
    except CompressionError:
        return f"({len(message.record.body)} bytes, compressed)"
    text = _text(body[: 4 * _PREVIEW_SIZE]) or _text(body[: 4 * _PREVIEW_SIZE - 3])
    if text is None or not all(it.isprintable() or it.isspace() for it in text):
        return f"{body[:24].hex(' ')}{' …' if len(body) > 24 else ''}"
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW_SIZE else line[:_PREVIEW_SIZE] + "…"


def dump(data: bytes) -> str:
    """Returns sixteen bytes to a line: offset, hexadecimal, and what of them can be read."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {seen}")
    return "\n".join(lines)


def line(message: Received) -> bytes:
    """Returns a message as a line of JSON. A body that is no text is Base64, so that nothing is lost."""
    record = message.record
    found: dict[str, Any] = {
        "topic": record.topic,
        "messageId": message.message_id,
        "offsetId": message.offset_id,
        "broker": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "queueOffset": message.queue_offset,
        "bornTimestamp": message.born_millis,
        "storeTimestamp": message.stored_millis,
        "bornHost": message.born_host,
        "reconsumeTimes": record.reconsume_times,
        "tag": message.tag,
        "keys": message.keys,
        "flag": message.flag,
        "properties": dict(message.properties),
        **_body_fields(message),
    }
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _body_fields(message: Received) -> Mapping[str, Any]:
    try:
        body = restored(message)
    except CompressionError as error:
        stored = base64.b64encode(message.record.body).decode()
        return {"bodyBase64": stored, "isCompressed": True, "problem": sentence(error)}
    text = _text(body)
    return {"bodyBase64": base64.b64encode(body).decode()} if text is None else {"body": text}


def is_compressed(message: Received) -> bool:
    return bool(message.record.sys_flag & COMPRESSED)


def _text(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _json(text: str) -> str | None:
    """Returns JSON with its lines set apart; None if it is none, or nothing that would be clearer so."""
    if len(text) > SHOWN_SIZE_MAX or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None
