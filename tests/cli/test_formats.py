"""Formats of messages in `kerolox consume`."""

import base64
import json

import pytest

from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.formats import DEFAULT, as_json, formatter
from kerolox.client.messages import received
from kerolox.message import properties
from kerolox.message.message import Message
from kerolox.wire.bodies.queues import MessageQueue

VALUES = {"KEYS": "a b", "TAGS": "paid", "UNIQ_KEY": "id7", "colour": "blue"}
MESSAGE = received(
    Message("orders", b"\xffbody", properties.to_bytes(VALUES), queue_offset=3, store_timestamp=5, queue_id=1),
    MessageQueue("broker-a", 1, "orders"),
)


@pytest.mark.parametrize(
    ("layout", "printed"),
    [
        (DEFAULT, b"\xffbody\n"),
        (r"%t %b %p %o %T\t%S", b"orders broker-a 1 3 5\t5"),
        ("%k|%g|%i", b"a b|paid|id7"),
        (r"100%% \\ \0", b"100% \\ \0"),
        ("%h", b"KEYS=a b,TAGS=paid,UNIQ_KEY=id7,colour=blue"),
    ],
)
def test_a_format_is_filled_in(layout: str, printed: bytes) -> None:
    assert formatter(layout)(MESSAGE) == printed


@pytest.mark.parametrize("layout", ["%q", "%", r"\q"])
def test_an_unknown_field_is_refused_with_the_known_ones(layout: str) -> None:
    with pytest.raises(InvalidUsage, match=r"unknown .+; known are %s body"):
        formatter(layout)


def test_json_has_separate_fields_for_keys_and_tag() -> None:
    value = json.loads(as_json(MESSAGE))

    assert (value["keys"], value["tag"], value["properties"]) == (["a", "b"], "paid", {"colour": "blue"})


def test_json_has_a_binary_body_in_base64() -> None:
    value = json.loads(as_json(MESSAGE))

    assert "body" not in value
    assert base64.b64decode(value["bodyBase64"]) == MESSAGE.body
