"""Message bodies for display (JSON, text, hexadecimal) and as lossless JSON lines for export."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from kerolox.client.messages import BODY_SIZE_MAX, Received
from kerolox.dashboard.http.errors import error_text
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.message.sysflag import COMPRESSED
from kerolox.wire.bodies.queues import MessageQueue

# Longer bodies are truncated for display.
SHOWN_SIZE_MAX = 256 * 1024
_HEX_SIZE_MAX = 16 * 1024
_PREVIEW_SIZE = 120
# Limit of the decompressed size for a preview.
_PREVIEW_BODY_SIZE_MAX = 1024 * 1024


def as_stored(record: Record, queue: MessageQueue) -> Received:
    """Return a message without decompressing its body: a list of decompressed bodies could exhaust memory."""
    return Received(record, queue, record.topic, record.body, record.reconsume_times)


def decompressed_body(message: Received, size_max: int = BODY_SIZE_MAX) -> bytes:
    """Return the body as it was sent; CompressionError if it is damaged or larger than `size_max`."""
    return decompress(message.record.body, message.record.sys_flag, size_max)


def renderings(body: bytes) -> dict[str, str]:
    """Return the body in all formats that apply, by their names, the most readable first."""
    found: dict[str, str] = {}
    text = _text(body)
    if text is not None and (pretty := _json(text)) is not None:
        found["JSON"] = pretty[:SHOWN_SIZE_MAX]
    if text is not None:
        found["Text"] = text[:SHOWN_SIZE_MAX]
    found["Hexadecimal"] = hex_dump(body[:_HEX_SIZE_MAX])
    return found


def preview(message: Received) -> str:
    """Return the beginning of a body in one line."""
    try:
        body = decompressed_body(message, _PREVIEW_BODY_SIZE_MAX)
    except CompressionError:
        return f"({len(message.record.body)} bytes, compressed)"
    text = _text(body[: 4 * _PREVIEW_SIZE]) or _text(body[: 4 * _PREVIEW_SIZE - 3])
    if text is None or not all(it.isprintable() or it.isspace() for it in text):
        return f"{body[:24].hex(' ')}{' …' if len(body) > 24 else ''}"
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW_SIZE else line[:_PREVIEW_SIZE] + "…"


def hex_dump(data: bytes) -> str:
    """Return lines of sixteen bytes: offset, hexadecimal, printable ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {ascii_text}")
    return "\n".join(lines)


def json_line(message: Received) -> bytes:
    """Return a message as a line of JSON. A body that is not UTF-8 is Base64, so that no byte is lost."""
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
        body = decompressed_body(message)
    except CompressionError as error:
        stored = base64.b64encode(message.record.body).decode()
        return {"bodyBase64": stored, "isCompressed": True, "problem": error_text(error)}
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
    """Return pretty-printed JSON; None if the text is not a JSON object or array, or is too long."""
    if len(text) > SHOWN_SIZE_MAX or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None
