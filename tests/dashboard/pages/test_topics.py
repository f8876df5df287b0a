from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.dashboard.server import DashboardOptions
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


async def test_a_topic_is_created_changed_and_deleted(visitor: Visitor, admin: AdminClient) -> None:
    await visitor.get("/topics")

    assert "Topic orders is on broker-a with 3 queues" in await visitor.do("/topics/create", name="orders", queues="3")
    assert (await admin.topics.configs("orders"))["broker-a"].write_queue_nums == 3

    await visitor.do("/topic/change", name="orders", queues="5", perm="4")
    config = (await admin.topics.configs("orders"))["broker-a"]
    assert (config.read_queue_nums, config.perm) == (5, 4)

    assert "are deleted" in await visitor.do("/topic/delete", name="orders", sure="yes")
    assert "orders" not in await admin.topics.names()


async def test_deleting_requires_a_confirmation(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topics")

    assert "tick the box" in (await visitor.post("/topic/delete", 400, name="orders")).text

    assert "orders" in await admin.topics.names()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "no good", "queues": "3"}, "is not a valid name"),
        ({"name": "orders", "queues": "0"}, "1 to 1024 are allowed"),
        ({"name": "orders", "queues": "many"}, "is not a whole number"),
        ({"name": "", "queues": "3"}, "the topic's name is missing"),
        ({"name": "orders", "queues": "3", "cluster": "nowhere"}, "cluster 'nowhere' is not known"),
    ],
)
async def test_an_invalid_topic_is_refused_with_the_reason(
    visitor: Visitor, fields: dict[str, str], expected: str
) -> None:
    await visitor.get("/topics")
    answer = await visitor.client.post("/topics/create", data={"token": visitor.token, **fields})

    assert answer.status_code in (400, 404)
    assert expected in answer.text.replace("&#39;", "'")


async def test_an_unknown_permission_is_refused(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await visitor.get("/topics")

    assert "expected 6, 4, 2" in (await visitor.post("/topic/change", 400, name="orders", queues="8", perm="5")).text


async def test_topics_are_listed_by_kind_and_part_of_their_name(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders")
    await admin.topics.create("payments")

    assert "orders normal 8 0" in await visitor.see("/topics")
    seen = await visitor.see("/topics", part="PAY")
    assert "payments" in seen
    assert "orders" not in seen
    assert "TBW102 system" in await visitor.see("/topics", kind="system")


async def test_many_topics_are_paginated(visitor: Visitor, admin: AdminClient) -> None:
    for number in range(53):
        await admin.topics.create(f"topic-{number:03}", read_queues=1, write_queues=1)

    assert "page 1 of 2" in await visitor.see("/topics")
    assert "topic-052" in await visitor.see("/topics", page=2)


async def test_a_topic_shows_its_queues_and_the_lag_of_its_groups(visitor: Visitor, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await visitor.get("/topic", name="orders")
    await visitor.do("/topic/send", name="orders", body="one")
    queue = (await admin.topics.route("orders")).read_queues[0]
    await admin.groups.create("shop")
    await admin.offsets.commit("shop", queue, 0)

    seen = await visitor.see("/topic", name="orders")

    assert "broker-a 0 0 1 1" in seen
    assert "shop 1" in seen


async def test_an_unknown_topic_is_a_404_page(visitor: Visitor) -> None:
    assert "no NameServer has a route of topic 'nothing'" in await visitor.see("/topic", 404, name="nothing")


async def test_names_are_escaped_in_html(visitor: Visitor) -> None:
    seen = await visitor.get("/topic", 404, name="<script>alert(1)</script>")

    assert "<script>alert" not in seen


async def test_a_reader_sees_no_forms(cluster: Cluster, admin: AdminClient, tmp_path: Path) -> None:
    await admin.topics.create("orders")
    options = DashboardOptions(namesrv_addr=cluster.namesrv_addr, read_only=True)
    async with visiting(options, tmp_path) as visitor:
        seen = await visitor.get("/topic", name="orders")

    assert 'method="post"' not in seen
