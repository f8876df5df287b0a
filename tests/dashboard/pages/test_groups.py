import asyncio
import re
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, MessageQueue, Producer, PushConsumer, Received
from kerolox.codes import ResponseCode
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from kerolox.wire.reply import Reply
from tests.broker.consumers import consuming
from tests.dashboard.browsing import Visitor, visiting

QUEUE = MessageQueue("broker-a", 0, "orders")


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
async def test_groups_are_listed_with_their_lag_without_system_groups(visitor: Visitor) -> None:
    seen = await visitor.see("/groups")

    assert "shop 0 – 0 6" in seen
    assert "TOOLS_CONSUMER" not in seen


@pytest.mark.usefixtures("queue_of_ten")
async def test_a_group_shows_its_lag_by_queue(visitor: Visitor) -> None:
    seen = await visitor.see("/group", name="shop")

    assert "orders broker-a 0 4 10 6" in seen
    assert "no consumer is connected" in seen


@pytest.mark.usefixtures("queue_of_ten")
@pytest.mark.parametrize(
    ("where", "offset"), [("beginning", 0), ("end", 10), ("time", 0)], ids=["beginning", "end", "time"]
)
async def test_offsets_of_a_group_are_reset(visitor: Visitor, admin: AdminClient, where: str, offset: int) -> None:
    await visitor.get("/group", name="shop")

    fields = {"name": "shop", "topic": "orders", "where": where, "time": "2020-01-01T00:00:00", "sure": "yes"}
    text = await visitor.do("/group/reset", **fields)

    assert "Offsets of group shop are reset" in text
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
async def test_an_invalid_reset_changes_no_offset(
    visitor: Visitor, admin: AdminClient, fields: dict[str, str], status: int
) -> None:
    await visitor.get("/group", name="shop")

    await visitor.post("/group/reset", status, **fields)

    assert (await admin.offsets.progress("shop", "orders")).lag == 6


@pytest.mark.usefixtures("queue_of_ten")
async def test_members_are_shown_with_their_running_info(visitor: Visitor, cluster: Cluster) -> None:
    got = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        got.set()

    consumer = PushConsumer("shop", handle, topics="orders", namesrv_addr=cluster.namesrv_addr)
    async with consumer, asyncio.timeout(60):
        await got.wait()
        seen = await visitor.see("/group", name="shop")
        client = consumer.options.client_id
        text = await visitor.see("/member", name="shop", client=client)

    assert f"{client} 127.0.0.1" in seen
    assert "clustering" in seen
    assert "orders broker-a 0" in text


@pytest.mark.usefixtures("queue_of_ten")
async def test_a_member_that_times_out_is_shown_as_such(cluster: Cluster, tmp_path: Path) -> None:
    clock = ManualClock()
    options = DashboardOptions(namesrv_addr=cluster.namesrv_addr, clock=clock)
    async with (
        visiting(options, tmp_path) as visitor,
        consuming(cluster.brokers[0], "silent", "shop") as (silent, _),
        consuming(cluster.brokers[0], "talking", "shop") as (talking, _),
        asyncio.timeout(60),
    ):
        silent.answer = None
        talking.answer = Reply(None, ConsumerRunningInfo(mq_table={QUEUE: ProcessQueueInfo()}).encode())
        loading = asyncio.create_task(visitor.see("/group", name="shop"))
        await silent.next_request()
        await talking.next_request()
        # The broker relays answers in order: when this one is here, so is the one that the group page waits for.
        assert "orders broker-a 0" in await visitor.see("/member", name="shop", client="talking")
        await clock.advance(31)
        group = await loading

        loading = asyncio.create_task(visitor.see("/member", name="shop", client="silent"))
        await silent.next_request()
        await clock.advance(31)
        member = await loading

    assert "1 of 2 members did not report their queues" in group
    assert "unknown no response within 30 s running info" in group
    assert re.search(r"orders broker-a 0 4 10 6 [-0-9: ]+ UTC talking", group)
    assert "The member gave no response within 30 s" in member


@pytest.mark.usefixtures("queue_of_ten")
async def test_a_failing_member_does_not_hide_the_others(visitor: Visitor, cluster: Cluster) -> None:
    async with (
        consuming(cluster.brokers[0], "broken", "shop") as (broken, _),
        consuming(cluster.brokers[0], "talking", "shop") as (talking, _),
    ):
        broken.answer = Reply(code=ResponseCode.SYSTEM_ERROR, remark="out of memory")
        talking.answer = Reply(None, ConsumerRunningInfo(mq_table={QUEUE: ProcessQueueInfo()}).encode())
        seen = await visitor.see("/group", name="shop")

    assert "unknown out of memory (SYSTEM_ERROR, 1) running info" in seen
    assert re.search(r"orders broker-a 0 4 10 6 [-0-9: ]+ UTC talking", seen)


async def test_many_groups_are_paginated_and_sorted_by_name(visitor: Visitor, admin: AdminClient) -> None:
    for number in range(203):
        await admin.groups.create(f"group-{number:03}")

    assert "page 1 of 5" in await visitor.see("/groups")
    assert "group-202" in await visitor.see("/groups", page=5)


async def test_an_unknown_group_is_a_404_page(visitor: Visitor) -> None:
    assert "group 'nobody' is not known" in await visitor.see("/group", 404, name="nobody")
