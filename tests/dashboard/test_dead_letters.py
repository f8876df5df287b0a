import json
from pathlib import Path

import httpx
import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, Received
from kerolox.dashboard import bodies
from kerolox.dashboard.server import DashboardOptions
from kerolox.errors import ConnectionLost
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.browsing import Visitor, visiting

BINARY = b"\x00\xff\xfe"


@pytest.fixture
async def failures(cluster: Cluster, admin: AdminClient) -> None:
    """Three dead letters of a group, one of which is no text."""
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    letters = [filling.order(1), filling.order(2), Message("orders", BINARY, keys=["binary"])]
    await filling.dead_letters(cluster.namesrv_addr, "billing", *letters)


@pytest.mark.usefixtures("failures")
async def test_dead_letters_are_counted_by_group_and_shown(visitor: Visitor) -> None:
    assert "billing 3" in await visitor.see("/dead-letters")

    seen = await visitor.see("/dead-letters", group="billing")

    assert "3 dead letters" in seen
    assert "order-1" in seen
    assert "00 ff fe" in seen


@pytest.mark.usefixtures("failures")
async def test_chosen_dead_letters_are_sent_again_and_no_others(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    said = await visitor.do(
        "/dead-letters/act", group="billing", place=await _places(admin, "order-1", "binary"), action="resend"
    )

    assert "Done with 2 of 2." in said
    counts = [len(await admin.messages.by_key("orders", key)) for key in ("order-1", "order-2", "binary")]
    assert counts == [2, 1, 2]
    assert (await admin.messages.by_key("orders", "binary"))[-1].body == BINARY


@pytest.mark.usefixtures("failures")
async def test_an_export_has_all_of_them_byte_for_byte(visitor: Visitor) -> None:
    answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert 'filename="dead-letters-billing.jsonl"' in answer.headers["content-disposition"]
    # A group's consumers give up on messages in any order.
    found = sorted(map(json.loads, answer.text.splitlines()), key=lambda it: it["keys"], reverse=True)
    assert [it["keys"] for it in found] == [["order-2"], ["order-1"], ["binary"]]
    assert json.loads(found[0]["body"])["order"] == 2
    assert found[2]["bodyBase64"] == "AP/+"
    assert "body" not in found[2]


async def test_an_export_is_not_only_the_newest(visitor: Visitor, cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("%DLQ%billing", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, *(Message("%DLQ%billing", f"{number}".encode()) for number in range(333)))

    answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert [json.loads(line)["body"] for line in answer.text.splitlines()] == [str(number) for number in range(333)]


@pytest.mark.usefixtures("failures")
async def test_an_export_that_cannot_go_on_is_seen_to_be_cut_off(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = bodies.line

    def breaks(message: Received) -> bytes:
        if message.queue_offset > 0:
            raise ConnectionLost("the broker is gone")
        return whole(message)

    monkeypatch.setattr(bodies, "line", breaks)

    with pytest.raises(httpx.RemoteProtocolError):
        await visitor.client.get("/dead-letters/export", params={"group": "billing"})
    assert "cut off: the broker is gone" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("failures")
async def test_the_chosen_can_be_exported_alone(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    answer = await visitor.post(
        "/dead-letters/act", 200, group="billing", place=await _places(admin, "order-2"), action="export"
    )

    assert [json.loads(line)["keys"] for line in answer.text.splitlines()] == [["order-2"]]


@pytest.mark.usefixtures("failures")
async def test_what_cannot_be_handed_over_is_told_for_each(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    said = await visitor.do(
        "/dead-letters/act", group="billing", place=await _places(admin, "order-1", "order-2"), action="hand"
    )

    assert "Done with 0 of 2." in said
    assert "nobody of group 'billing' is connected" in said


@pytest.mark.usefixtures("failures")
async def test_what_takes_too_long_is_not_begun(
    visitor: Visitor, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerolox.dashboard.dead_letters._ACT_SECONDS", -1.0)
    await visitor.get("/dead-letters", group="billing")

    places = await _places(admin, "order-1", "order-2")
    said = await visitor.do("/dead-letters/act", group="billing", place=places, action="resend")

    assert "Done with 0 of 2." in said
    assert "the rest was not begun" in said


@pytest.mark.usefixtures("failures")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"action": "resend"}, "choose at least one"),
        ({"action": "burn", "place": "broker-a:0:0"}, "what to do is not"),
        ({"action": "resend", "place": "elsewhere"}, "is no place"),
        ({"action": "resend", "place": [f"broker-a:0:{number}" for number in range(201)]}, "at most 200"),
    ],
)
async def test_a_form_that_is_wrong_does_nothing(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], said: str
) -> None:
    await visitor.get("/dead-letters", group="billing")

    assert said in (await visitor.post("/dead-letters/act", 400, group="billing", **fields)).text

    assert len(await admin.messages.by_key("orders", "order-1")) == 1


async def test_a_group_without_dead_letters_says_so(visitor: Visitor) -> None:
    assert "This group has none" in await visitor.see("/dead-letters", group="nobody")
    assert "No group has any" in await visitor.see("/dead-letters")


@pytest.mark.usefixtures("failures")
async def test_a_reader_may_export_and_not_resend(cluster: Cluster, tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=cluster.namesrv_addr, read_only=True)
    async with visiting(options, tmp_path) as visitor:
        seen = await visitor.get("/dead-letters", group="billing")
        answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert 'method="post"' not in seen
    assert len(answer.text.splitlines()) == 3


async def _places(admin: AdminClient, *keys: str) -> list[str]:
    found = [(await admin.messages.by_key("%DLQ%billing", key))[0] for key in keys]
    return [f"{it.queue.broker_name}:{it.queue.queue_id}:{it.queue_offset}" for it in found]
