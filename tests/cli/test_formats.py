"""How a message is printed."""

import base64
import json

import pytest

from kerolox.cli.admin.errors import Misused
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
def test_what_is_not_known_is_refused_with_what_is(layout: str) -> None:
    with pytest.raises(Misused, match="is not known; %s body"):
        formatter(layout)


def test_json_has_a_members_own_place_for_keys_and_tag() -> None:
    value = json.loads(as_json(MESSAGE))

    assert (value["keys"], value["tag"], value["properties"]) == (["a", "b"], "paid", {"colour": "blue"})


def test_json_has_a_body_that_is_no_text_byte_for_byte() -> None:
    value = json.loads(as_json(MESSAGE))

    assert "body" not in value
    assert base64.b64decode(value["bodyBase64"]) == MESSAGE.body
