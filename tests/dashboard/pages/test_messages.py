import asyncio
import re
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, MessageQueue, PushConsumer, Received
from kerolox.dashboard.server import DashboardOptions
from kerolox.message.ids import parse_offset_id
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.browsing import Visitor, read, visiting

_BODIES = re.compile(r"number-(\d+)")


@pytest.fixture
async def orders(cluster: Cluster, admin: AdminClient) -> None:
    """Messages in three queues, numbered in the order in which they were stored."""
    await admin.topics.create("orders", read_queues=3, write_queues=3)
    numbered = [Message("orders", f"number-{number}".encode(), keys=[f"key-{number}"]) for number in range(120)]
    await filling.send(cluster.namesrv_addr, *numbered)


@pytest.mark.usefixtures("orders")
async def test_pagination_shows_every_message_exactly_once(visitor: Visitor) -> None:
    page = await visitor.get("/messages", topic="orders")
    found = [_numbers(page)]
    while link := re.search(r'rel="next" href="([^"]+)"', page):
        page = await visitor.get(link[1].replace("&amp;", "&"))
        found.append(_numbers(page))

    assert [len(numbers) for numbers in found] == [50, 50, 20]
    assert sorted(number for numbers in found for number in numbers) == list(range(120))


@pytest.mark.usefixtures("orders")
async def test_a_search_by_time_finds_only_messages_in_the_range(visitor: Visitor) -> None:
    early = {"begin": "2020-01-01T00:00:00", "end": "2020-01-02T00:00:00"}

    assert _numbers(await visitor.get("/messages", topic="orders", **early)) == []
    assert len(_numbers(await visitor.get("/messages", topic="orders", begin="2020-01-01T00:00"))) == 50


@pytest.mark.usefixtures("orders")
async def test_a_message_is_found_by_its_key_and_by_both_of_its_ids(visitor: Visitor, admin: AdminClient) -> None:
    message = (await admin.messages.by_key("orders", "key-77"))[0]

    assert _numbers(await visitor.get("/messages", topic="orders", key="key-77")) == [77]
    assert _numbers(await visitor.get("/messages", topic="orders", id=message.message_id)) == [77]
    assert _numbers(await visitor.get("/messages", id=message.offset_id)) == [77]


@pytest.mark.usefixtures("orders")
async def test_a_unique_key_without_a_topic_asks_for_the_topic(visitor: Visitor, admin: AdminClient) -> None:
    """It has as many digits as an offset message id and parses as one."""
    message = (await admin.messages.by_key("orders", "key-77"))[0]
    assert parse_offset_id(message.message_id)

    seen = await visitor.see("/messages", id=message.message_id)

    assert f"'{message.message_id}' is not an offset message id" in seen
    assert "if it is the unique key that the producer gave the message, enter the topic as well" in seen
    assert "has a message of id" not in seen


async def test_a_message_of_a_broker_with_an_ipv6_address_is_found_without_a_topic(tmp_path: Path) -> None:
    settings = {"brokerIP1": "0:0:0:0:0:0:0:1", "bindAddress": "::1"}
    async with Cluster(tmp_path / "cluster", settings=settings) as cluster:
        options = DashboardOptions(namesrv_addr=cluster.namesrv_addr)
        async with AdminClient(namesrv_addr=cluster.namesrv_addr) as admin, visiting(options, tmp_path) as visitor:
            await admin.topics.create("orders", read_queues=1, write_queues=1)
            [sent] = await filling.send(cluster.namesrv_addr, Message("orders", b"number-5"))
            assert len(sent.offset_id) == 56

            assert _numbers(await visitor.get("/messages", id=sent.offset_id)) == [5]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"topic": "nothing"}, "no NameServer has a route"),
        ({"topic": "orders", "begin": "soon"}, "is not a time"),
        ({"topic": "orders", "cursor": "1.2"}, "search again"),
        ({"topic": "orders", "cursor": "1.-2.3"}, "search again"),
        ({"topic": "orders", "id": "nonsense"}, "has a message of id nonsense"),
        ({"id": "nonsense"}, "if it is the unique key that the producer gave the message, enter the topic as well"),
        ({"key": "key-7"}, "a key is looked up in one topic: enter the topic as well"),
    ],
)
async def test_a_failed_search_explains_why(visitor: Visitor, query: dict[str, str], expected: str) -> None:
    assert expected in await visitor.see("/messages", **query)


async def test_an_id_makes_no_connection_outside_of_the_cluster(visitor: Visitor) -> None:
    """Otherwise an id could make the dashboard connect to any address it can reach."""
    called = asyncio.Event()
    server = await asyncio.start_server(lambda *_: called.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    message_id = f"7F000001{port:08X}{0:016X}"
    assert parse_offset_id(message_id)

    async with server:
        assert f"no broker of this cluster is at 127.0.0.1:{port}" in await visitor.see("/messages", id=message_id)
        place = f"127.0.0.1:{port}:0:0"
        assert "is not a message location" in await visitor.see("/message", 400, topic="orders", place=place)

    assert not called.is_set()


@pytest.mark.usefixtures("orders")
async def test_a_message_is_shown_with_its_body_and_can_be_resent(visitor: Visitor, admin: AdminClient) -> None:
    message = (await admin.messages.by_key("orders", "key-5"))[0]
    place = f"broker-a:{message.queue.queue_id}:{message.queue_offset}"

    seen = await visitor.see("/message", topic="orders", place=place)
    assert "Text number-5" in seen
    assert "property KEYS key-5" in seen

    text = await visitor.do("/message/resend", topic="orders", place=place)
    assert f"Sent again as {message.message_id} to orders" in text
    assert len(await admin.messages.by_key("orders", "key-5")) == 2


async def test_a_compressed_body_is_shown_decompressed(visitor: Visitor, cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, Message("orders", b"wide " * 4000))

    seen = await visitor.see("/message", topic="orders", place="broker-a:0:0")

    assert "19.5 KiB, compressed to" in seen
    assert "wide wide wide" in seen


@pytest.mark.parametrize("body", [rb'["\ud800"]', b"\x00<script>", b"[" * 9999, b"\xff" * 99])
async def test_hostile_bodies_do_not_break_the_page(
    visitor: Visitor, cluster: Cluster, admin: AdminClient, body: bytes
) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, Message("orders", body))

    await visitor.get("/messages", topic="orders")
    assert "<script>" not in (await visitor.get("/message", topic="orders", place="broker-a:0:0")).partition("<main")[2]


async def test_a_trace_is_shown_as_a_timeline(visitor: Visitor, cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await filling.traced(cluster.namesrv_addr, "billing", filling.order(1))

    page = await visitor.get("/message", topic="orders", place="broker-a:0:0")

    assert '<div class="timeline"' in page
    assert "sent shop" in read(page)
    assert "consumed, attempt 1 billing" in read(page)


async def test_a_message_is_consumed_directly_by_a_member(
    visitor: Visitor, cluster: Cluster, admin: AdminClient
) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, filling.order(1))
    got: asyncio.Queue[list[Received]] = asyncio.Queue()
    consumer = PushConsumer(
        "billing",
        got.put,
        topics="orders",
        consume_from=ConsumeFrom.FIRST_OFFSET,
        namesrv_addr=cluster.namesrv_addr,
    )
    async with consumer, asyncio.timeout(60):
        await got.get()
        page = await visitor.get("/message", topic="orders", place="broker-a:0:0")
        text = await visitor.do("/message/hand", topic="orders", place="broker-a:0:0", group="billing")
        await got.get()

    assert "Consume now" in page
    assert "CR_SUCCESS" in text


async def test_consuming_directly_without_a_member_is_a_409(
    visitor: Visitor, cluster: Cluster, admin: AdminClient
) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await filling.send(cluster.namesrv_addr, filling.order(1))
    await admin.groups.create("nobody")
    await admin.offsets.commit("nobody", MessageQueue("broker-a", 0, "orders"), 0)
    page = await visitor.get("/message", topic="orders", place="broker-a:0:0")

    answer = await visitor.post("/message/hand", 409, topic="orders", place="broker-a:0:0", group="nobody")

    assert "Consume now" not in page
    assert "is connected" in answer.text


@pytest.mark.parametrize("place", ["", "broker-a", "broker-a:x:1", "broker-a:1", "broker-a:1:99999999999999999999"])
async def test_a_malformed_message_location_is_a_400(visitor: Visitor, place: str) -> None:
    await visitor.get("/message", 400, topic="orders", place=place)


def _numbers(page: str) -> list[int]:
    return [int(number) for number in _BODIES.findall(page)]
