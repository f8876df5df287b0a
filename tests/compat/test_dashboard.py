"""The dashboard with Apache's servers: opens every page, and runs its main action."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message
from kerolox.dashboard.server import DashboardOptions
from tests.apache import VERSIONS, servers
from tests.apache.processes import Process
from tests.apache.requirements import require_java
from tests.compat.table import Part, Table
from tests.dashboard import filling
from tests.dashboard.browsing import Visitor, visiting

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

TIMEOUT_SECONDS = 20.0
DEADLINE_SECONDS = 60.0


@pytest.fixture(scope="module", params=VERSIONS)
def apache(request: pytest.FixtureRequest) -> Iterator[tuple[str, Process]]:
    require_java()
    version = request.param
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(version))
        stack.enter_context(servers.broker(version, name_server.address, properties={"traceTopicEnable": "true"}))
        yield version, name_server


@asynccontextmanager
async def open_dashboard(server: Process, tmp_path: Path) -> AsyncIterator[tuple[Visitor, AdminClient]]:
    options = DashboardOptions(namesrv_addr=server.address, timeout_seconds=TIMEOUT_SECONDS, sample_seconds=0.5)
    async with (
        AdminClient(namesrv_addr=server.address, timeout_seconds=TIMEOUT_SECONDS) as admin,
        visiting(options, tmp_path) as visitor,
    ):
        yield visitor, admin


async def eventually(load: Callable[[], Awaitable[str]], *expected: str) -> str:
    """Load a page until it contains all texts, and return it: Apache's servers exchange changes with a delay."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        page = await load()
        while not all(text in page for text in expected):
            await asyncio.sleep(0.2)
            page = await load()
    return page


async def text_of(visitor: Visitor, path: str, **query: str) -> str:
    return (await visitor.client.get(path, params=query)).text


async def test_the_dashboard_works_with_apaches_servers(
    apache: tuple[str, Process], tmp_path: Path, table: Table
) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "shows a cluster in the dashboard, and runs its actions", version):
        async with open_dashboard(server, tmp_path) as (visitor, admin):
            await _run_all_actions(visitor, admin, server)


async def _run_all_actions(visitor: Visitor, admin: AdminClient, server: Process) -> None:
    await eventually(lambda: text_of(visitor, "/"), "1 of 1", "<td>V")
    broker = re.search(r'href="(/broker\?[^"]+)"', await visitor.get("/"))
    assert broker is not None
    assert "commitLogMaxOffset" in await visitor.see(broker[1])
    assert "Only one NameServer responds" in await visitor.see("/nameservers")

    await visitor.get("/topics")
    await visitor.post("/topics/create", name="orders", queues="2")
    await eventually(lambda: text_of(visitor, "/topic", name="orders"), "read and write")
    await visitor.get("/topic", name="orders")
    await visitor.post("/topic/send", name="orders", body='{"order": 7}', keys="k7", tag="new")
    await eventually(lambda: text_of(visitor, "/messages", topic="orders", key="k7"), "{&#34;order&#34;: 7}")
    await _check_messages(visitor)

    await admin.groups.create("shop")
    for queue in (await admin.topics.route("orders")).read_queues:
        await admin.offsets.commit("shop", queue, 0)
    await eventually(lambda: visitor.see("/group", name="shop"), "Lag 2 messages")
    await visitor.post("/group/reset", name="shop", topic="orders", where="end", sure="yes")
    await eventually(lambda: visitor.see("/group", name="shop"), "Lag 0 messages")
    assert "shop 0" in await visitor.see("/groups")

    await _check_dead_letters(visitor, server)
    await eventually(lambda: text_of(visitor, "/charts/data.json"), '"shop":0')
    await visitor.get("/topic", name="orders")
    await visitor.post("/topic/delete", name="orders", sure="yes")
    assert "orders" not in await admin.topics.names()


async def _check_messages(visitor: Visitor) -> None:
    page = await eventually(lambda: text_of(visitor, "/messages", topic="orders"), "k7")
    link = re.search(r'href="(/message\?[^"]+)"', page)
    assert link is not None
    path = link[1].replace("&amp;", "&")
    assert "property KEYS k7" in await visitor.see(path)
    topic, place = re.findall(r"=([^&]+)", path)
    await visitor.post("/message/resend", topic=topic, place=place.replace("%3A", ":"))
    await eventually(lambda: text_of(visitor, "/topic", name="orders"), "<dd>2</dd>")


async def _check_dead_letters(visitor: Visitor, server: Process) -> None:
    await visitor.get("/topics")
    await visitor.post("/topics/create", name="payments", queues="1")
    await eventually(lambda: text_of(visitor, "/topic", name="payments"), "read and write")
    await filling.dead_letters(server.address, "billing", Message("payments", b"one"), Message("payments", b"\xff"))
    await eventually(lambda: visitor.see("/dead-letters"), "billing 2")
    answer = await visitor.client.get("/dead-letters/export", params={"group": "billing"})
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert sorted(it.get("body") or it["bodyBase64"] for it in found) == ["/w==", "one"]
    page = await visitor.get("/dead-letters", group="billing")
    places = re.findall(r'name="place" value="([^"]+)"', page)
    assert "Done with 2 of 2" in await visitor.do("/dead-letters/act", group="billing", place=places, action="resend")
