import json
from pathlib import Path

import httpx
import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, Received
from kerolox.dashboard.server import DashboardOptions
from kerolox.dashboard.views import body_text
from kerolox.errors import ConnectionLost
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.browsing import Visitor, visiting

BINARY = b"\x00\xff\xfe"


@pytest.fixture
async def dead_letters(cluster: Cluster, admin: AdminClient) -> None:
    """Three dead letters of a group, one of which is not UTF-8."""
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    letters = [filling.order(1), filling.order(2), Message("orders", BINARY, keys=["binary"])]
    await filling.dead_letters(cluster.namesrv_addr, "billing", *letters)


@pytest.mark.usefixtures("dead_letters")
async def test_dead_letters_are_counted_by_group_and_shown(visitor: Visitor) -> None:
    assert "billing 3" in await visitor.see("/dead-letters")

    seen = await visitor.see("/dead-letters", group="billing")

    assert "3 dead letters" in seen
    assert "order-1" in seen
    assert "00 ff fe" in seen


@pytest.mark.usefixtures("dead_letters")
async def test_only_selected_dead_letters_are_resent(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    text = await visitor.do(
        "/dead-letters/act", group="billing", place=await _locations(admin, "order-1", "binary"), action="resend"
    )

    assert "Done with 2 of 2." in text
    counts = [len(await admin.messages.by_key("orders", key)) for key in ("order-1", "order-2", "binary")]
    assert counts == [2, 1, 2]
    assert (await admin.messages.by_key("orders", "binary"))[-1].body == BINARY


@pytest.mark.usefixtures("dead_letters")
async def test_an_export_contains_all_dead_letters_byte_for_byte(visitor: Visitor) -> None:
    answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert 'filename="dead-letters-billing.jsonl"' in answer.headers["content-disposition"]
    # The order in which messages become dead letters is not defined.
    found = sorted(map(json.loads, answer.text.splitlines()), key=lambda it: it["keys"], reverse=True)
    assert [it["keys"] for it in found] == [["order-2"], ["order-1"], ["binary"]]
    assert json.loads(found[0]["body"])["order"] == 2
    assert found[2]["bodyBase64"] == "AP/+"
    assert "body" not in found[2]


async def test_an_export_is_not_limited_to_a_page(visitor: Visitor, cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("%DLQ%billing", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, *(Message("%DLQ%billing", f"{number}".encode()) for number in range(333)))

    answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert [json.loads(line)["body"] for line in answer.text.splitlines()] == [str(number) for number in range(333)]


@pytest.mark.usefixtures("dead_letters")
async def test_a_failing_export_aborts_the_response(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = body_text.json_line

    def breaks(message: Received) -> bytes:
        if message.queue_offset > 0:
            raise ConnectionLost("the broker is gone")
        return original(message)

    monkeypatch.setattr(body_text, "json_line", breaks)

    with pytest.raises(httpx.RemoteProtocolError):
        await visitor.client.get("/dead-letters/export", params={"group": "billing"})
    assert "aborted: the broker is gone" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("dead_letters")
async def test_only_selected_dead_letters_are_exported(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    answer = await visitor.post(
        "/dead-letters/act", 200, group="billing", place=await _locations(admin, "order-2"), action="export"
    )

    assert [json.loads(line)["keys"] for line in answer.text.splitlines()] == [["order-2"]]


@pytest.mark.usefixtures("dead_letters")
async def test_failures_to_consume_are_reported_for_each_message(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/dead-letters", group="billing")

    text = await visitor.do(
        "/dead-letters/act", group="billing", place=await _locations(admin, "order-1", "order-2"), action="hand"
    )

    assert "Done with 0 of 2." in text
    assert "no consumer of group 'billing' is connected" in text


@pytest.mark.usefixtures("dead_letters")
async def test_messages_beyond_the_time_limit_are_not_started(
    visitor: Visitor, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerolox.dashboard.pages.dead_letters._ACT_SECONDS", -1.0)
    await visitor.get("/dead-letters", group="billing")

    places = await _locations(admin, "order-1", "order-2")
    text = await visitor.do("/dead-letters/act", group="billing", place=places, action="resend")

    assert "Done with 0 of 2." in text
    assert "the rest was not started" in text


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"action": "resend"}, "select at least one"),
        ({"action": "burn", "place": "broker-a:0:0"}, "unknown action"),
        ({"action": "resend", "place": "elsewhere"}, "is not a message location"),
        ({"action": "resend", "place": [f"broker-a:0:{number}" for number in range(201)]}, "at most 200"),
    ],
)
async def test_an_invalid_form_changes_nothing(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], expected: str
) -> None:
    await visitor.get("/dead-letters", group="billing")

    assert expected in (await visitor.post("/dead-letters/act", 400, group="billing", **fields)).text

    assert len(await admin.messages.by_key("orders", "order-1")) == 1


async def test_an_empty_list_of_dead_letters_is_explained(visitor: Visitor) -> None:
    assert "This group has no dead letters" in await visitor.see("/dead-letters", group="unknown")
    assert "No group has dead letters" in await visitor.see("/dead-letters")


@pytest.mark.usefixtures("dead_letters")
async def test_a_reader_can_export_but_not_resend(cluster: Cluster, tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr=cluster.namesrv_addr, read_only=True)
    async with visiting(options, tmp_path) as visitor:
        seen = await visitor.get("/dead-letters", group="billing")
        answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})

    assert 'method="post"' not in seen
    assert len(answer.text.splitlines()) == 3


async def _locations(admin: AdminClient, *keys: str) -> list[str]:
    found = [(await admin.messages.by_key("%DLQ%billing", key))[0] for key in keys]
    return [f"{it.queue.broker_name}:{it.queue.queue_id}:{it.queue_offset}" for it in found]
