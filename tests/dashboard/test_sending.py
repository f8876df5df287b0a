import pytest

from kerolox.admin import AdminClient
from kerolox.client import Received
from tests.dashboard.browsing import Visitor


async def test_a_message_is_sent_with_tag_keys_and_properties(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    said = await visitor.do(
        "/topic/send", name="orders", body="a\r\nb", tag="new", keys="k1 k2", properties="colour=red\r\n\r\nsize = 4"
    )

    assert "Sent as" in said
    found = await _only(admin)
    assert found.body == b"a\nb"
    assert (found.tag, found.keys) == ("new", ["k1", "k2"])
    assert (found.properties["colour"], found.properties["size"]) == ("red", "4")


@pytest.mark.parametrize(("kind", "text"), [("base64", "AP8B\r\n/w=="), ("hex", "00 ff 01 ff")])
async def test_a_body_of_bytes_is_written_in_text(visitor: Visitor, admin: AdminClient, kind: str, text: str) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    await visitor.post("/topic/send", name="orders", kind=kind, body=text)

    assert (await _only(admin)).body == b"\x00\xff\x01\xff"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "base64", "body": "?"}, "the body is not base64"),
        ({"kind": "hex", "body": "abc"}, "the body is not hex"),
        ({"kind": "gif", "body": "abc"}, "a body of kind"),
        ({"body": "abc", "properties": "nothing"}, "is not of the form name=value"),
        ({"body": "abc", "properties": "KEYS=1"}, "KEYS"),
    ],
)
async def test_what_cannot_be_sent_is_told_in_a_sentence(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], said: str
) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    assert said in (await visitor.post("/topic/send", 400, name="orders", **fields)).text


async def test_a_mistyped_topic_is_not_made(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/topics")

    await visitor.post("/topic/send", 404, name="ordesr", body="x")

    assert "ordesr" not in await admin.topics.names()


async def test_a_message_of_a_mebibyte_fits_into_the_form(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topic", name="orders")

    await visitor.post("/topic/send", name="orders", body="x" * 2**20)

    assert len((await _only(admin)).body) == 2**20


async def _only(admin: AdminClient) -> Received:
    found = [message async for message in admin.messages.read_topic("orders")]
    assert len(found) == 1
    return found[0]
