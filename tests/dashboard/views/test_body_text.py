import base64
import json
import zlib
from typing import Any

import pytest

from kerolox.client import MessageQueue, Received
from kerolox.dashboard.views import body_text
from kerolox.message import properties
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.message.sysflag import COMPRESSED


def message(body: bytes, sys_flag: int = 0) -> Received:
    given = properties.to_bytes({"KEYS": "k1 k2", "TAGS": "new", "colour": "röt"})
    record = Record("orders", body, given, queue_id=3, sys_flag=sys_flag, queue_offset=7, store_timestamp=5)
    return body_text.as_stored(record, MessageQueue("broker-a", 3, "orders"))


def test_json_is_shown_first() -> None:
    found = body_text.renderings(b'{"a":[1,2]}')

    assert list(found) == ["JSON", "Text", "Hexadecimal"]
    assert found["JSON"] == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert found["Text"] == '{"a":[1,2]}'


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{1}", b"[" + b"9" * 10_000 + b"]", b"plain", b'"text"', b""])
def test_invalid_or_scalar_json_is_shown_as_text(body: bytes) -> None:
    assert list(body_text.renderings(body)) == ["Text", "Hexadecimal"]


def test_a_lone_surrogate_is_replaced() -> None:
    assert body_text.renderings(rb'["\ud800"]')["JSON"].encode("utf-8", "replace") == b'[\n  "?"\n]'


def test_bytes_that_are_not_utf8_are_shown_in_hexadecimal() -> None:
    found = body_text.renderings(b"\xff\x00abc")

    assert found == {"Hexadecimal": "00000000  ff 00 61 62 63" + " " * 35 + "..abc"}


def test_a_long_body_is_truncated() -> None:
    found = body_text.renderings(b"x" * 10_000_000)

    assert len(found["Text"]) == body_text.SHOWN_SIZE_MAX
    assert len(found["Hexadecimal"]) < 100_000


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"one\n  two\tthree", "one two three"),
        (b"x" * 500, "x" * 120 + "…"),
        ("ü".encode() * 500, "ü" * 120 + "…"),
        (b"\x00\x01\xff", "00 01 ff"),
        (b"\x1b[31mred", "1b 5b 33 31 6d 72 65 64"),
        (b"", ""),
    ],
)
def test_a_preview_is_one_readable_line(body: bytes, line: str) -> None:
    assert body_text.preview(message(body)) == line


def test_a_compressed_body_is_previewed_but_a_decompression_bomb_is_not() -> None:
    assert body_text.preview(message(zlib.compress(b"hello"), COMPRESSED)) == "hello"

    bomb = zlib.compress(bytes(100_000_000))
    assert body_text.preview(message(bomb, COMPRESSED)) == f"({len(bomb)} bytes, compressed)"
    with pytest.raises(CompressionError):
        body_text.decompressed_body(message(bomb, COMPRESSED))


@pytest.mark.parametrize("body", [b"plain \xc3\xbc", b"\xff\xfe\x00", b"\x00", b"", b"\xed\xa0\x80"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_json_line_loses_no_byte(body: bytes, is_compressed: bool) -> None:
    stored = message(zlib.compress(body), COMPRESSED) if is_compressed else message(body)

    found = _read(body_text.json_line(stored))

    assert (found["body"].encode() if "body" in found else base64.b64decode(found["bodyBase64"])) == body
    assert found["keys"] == ["k1", "k2"]
    assert found["properties"]["colour"] == "röt"
    assert (found["queueId"], found["queueOffset"], found["storeTimestamp"]) == (3, 7, 5)


def test_a_json_line_of_a_damaged_body_contains_the_stored_bytes() -> None:
    found = _read(body_text.json_line(message(b"no zlib", COMPRESSED)))

    assert base64.b64decode(found["bodyBase64"]) == b"no zlib"
    assert found["isCompressed"]
    assert "damaged" in found["problem"]


def _read(line: bytes) -> dict[str, Any]:
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found
