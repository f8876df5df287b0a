import pytest

from kerolox.admin import AdminClient
from kerolox.client import Received
from tests.dashboard.browsing import Visitor


async def test_a_message_is_sent_with_tag_keys_and_properties(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    text = await visitor.do(
        "/topic/send", name="orders", body="a\r\nb", tag="new", keys="k1 k2", properties="colour=red\r\n\r\nsize = 4"
    )

    assert "Sent as" in text
    found = await _only(admin)
    assert found.body == b"a\nb"
    assert (found.tag, found.keys) == ("new", ["k1", "k2"])
    assert (found.properties["colour"], found.properties["size"]) == ("red", "4")


@pytest.mark.parametrize(("kind", "text"), [("base64", "AP8B\r\n/w=="), ("hex", "00 ff 01 ff")])
async def test_a_body_can_be_given_as_base64_or_hex(visitor: Visitor, admin: AdminClient, kind: str, text: str) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    await visitor.post("/topic/send", name="orders", kind=kind, body=text)

    assert (await _only(admin)).body == b"\x00\xff\x01\xff"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "base64", "body": "?"}, "the body is not valid base64"),
        ({"kind": "hex", "body": "abc"}, "the body is not valid hex"),
        ({"kind": "gif", "body": "abc"}, "unknown kind of body"),
        ({"body": "abc", "properties": "nothing"}, "does not have the form name=value"),
        ({"body": "abc", "properties": "KEYS=1"}, "KEYS"),
    ],
)
async def test_an_invalid_message_is_a_400_with_the_reason(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], expected: str
) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    assert expected in (await visitor.post("/topic/send", 400, name="orders", **fields)).text


async def test_a_mistyped_topic_is_not_created(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/topics")

    await visitor.post("/topic/send", 404, name="ordesr", body="x")

    assert "ordesr" not in await admin.topics.names()


async def test_a_message_of_one_mebibyte_can_be_sent(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    await visitor.post("/topic/send", name="orders", body="x" * 2**20)

    assert len((await _only(admin)).body) == 2**20


async def _only(admin: AdminClient) -> Received:
    found = [message async for message in admin.messages.read_topic("orders")]
    assert len(found) == 1
    return found[0]
