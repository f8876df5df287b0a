import asyncio

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, Producer, PushConsumer, Received
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor


@pytest.fixture
async def queue_of_ten(cluster: Cluster, admin: AdminClient) -> None:
    """Ten messages in one queue, and a group that has consumed four."""
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await admin.groups.create("shop")
    async with Producer("shop", namesrv_addr=cluster.namesrv_addr) as producer:
        for number in range(10):
            await producer.send(Message("orders", f"{number}".encode()))
    await admin.offsets.commit("shop", (await admin.topics.route("orders")).read_queues[0], 4)


@pytest.mark.usefixtures("queue_of_ten")
async def test_groups_are_listed_with_their_lag_and_not_the_systems(visitor: Visitor) -> None:
    seen = await visitor.see("/groups")

    assert "shop nobody – 0 6" in seen
    assert "TOOLS_CONSUMER" not in seen


@pytest.mark.usefixtures("queue_of_ten")
async def test_a_group_shows_its_lag_by_queue(visitor: Visitor) -> None:
    seen = await visitor.see("/group", name="shop")

    assert "orders broker-a 0 4 10 6" in seen
    assert "nobody is connected" in seen


@pytest.mark.usefixtures("queue_of_ten")
@pytest.mark.parametrize(
    ("where", "offset"), [("beginning", 0), ("end", 10), ("time", 0)], ids=["beginning", "end", "time"]
)
async def test_a_group_is_sent_elsewhere(visitor: Visitor, admin: AdminClient, where: str, offset: int) -> None:
    await visitor.get("/group", name="shop")

    fields = {"name": "shop", "topic": "orders", "where": where, "time": "2020-01-01T00:00:00", "sure": "yes"}
    said = await visitor.do("/group/reset", **fields)

    assert "Group shop goes on" in said
    queue = (await admin.topics.route("orders")).read_queues[0]
    assert await admin.offsets.committed("shop", queue) == offset


@pytest.mark.usefixtures("queue_of_ten")
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "shop", "topic": "orders", "where": "end"}, 400),
        ({"name": "shop", "topic": "orders", "where": "time", "time": "soon", "sure": "yes"}, 400),
        ({"name": "shop", "topic": "orders", "where": "moon", "sure": "yes"}, 400),
        ({"name": "nobody", "topic": "orders", "where": "end", "sure": "yes"}, 404),
        ({"name": "shop", "topic": "nothing", "where": "end", "sure": "yes"}, 404),
    ],
)
async def test_a_group_stays_where_it_is_if_the_form_is_wrong(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], status: int
) -> None:
    await visitor.get("/group", name="shop")

    await visitor.post("/group/reset", status, **fields)

    assert (await admin.offsets.progress("shop", "orders")).lag == 6


@pytest.mark.usefixtures("queue_of_ten")
async def test_members_are_shown_and_say_what_they_have(visitor: Visitor, cluster: Cluster) -> None:
    got = asyncio.Event()

    async def handle(message: Received) -> None:
        got.set()

    consumer = PushConsumer("shop", handle, topics="orders", namesrv_addr=cluster.namesrv_addr)
    async with consumer, asyncio.timeout(60):
        await got.wait()
        seen = await visitor.see("/group", name="shop")
        client = consumer.options.client_id
        said = await visitor.see("/member", name="shop", client=client)

    assert f"{client} 127.0.0.1" in seen
    assert "clustering" in seen
    assert "orders broker-a 0" in said


async def test_many_groups_come_in_pages_in_the_order_of_their_names(visitor: Visitor, admin: AdminClient) -> None:
    for number in range(203):
        await admin.groups.create(f"group-{number:03}")

    assert "page 1 of 5" in await visitor.see("/groups")
    assert "group-202" in await visitor.see("/groups", page=5)


async def test_a_group_that_is_not_there_is_a_sentence(visitor: Visitor) -> None:
    assert "group 'nobody' is not known" in await visitor.see("/group", 404, name="nobody")
