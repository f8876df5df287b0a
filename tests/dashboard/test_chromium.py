"""The dashboard in a real browser: each page at two widths, and the main thing done on each."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from kerolox.admin import AdminClient
from kerolox.client import Message, PushConsumer, Received
from kerolox.dashboard import users
from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.runtime.service import Supervisor
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.chromium import WIDTHS, Window, chromium, window
from tests.dashboard.test_pipelines import pipeline

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PAGES = {
    "cluster": "/",
    "nameservers": "/nameservers",
    "topics": "/topics",
    "topic": "/topic?name=orders",
    "groups": "/groups",
    "group": "/group?name=shipping",
    "group-behind": "/group?name=reports&topic=orders",
    "messages": "/messages?topic=orders",
    "dead-letters": "/dead-letters",
    "dead-letters-of": "/dead-letters?group=billing",
    "charts": "/charts",
    "pipelines": "/pipelines",
}


@dataclass
class House:
    """All that a dashboard can show, in one cluster."""

    url: str
    guarded_url: str
    admin: AdminClient
    broker_addr: str
    member: str
    traced_place: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("house")
    async with Cluster(folder / "cluster", brokers=2, settings={"traceTopicEnable": "true"}) as cluster:
        address = cluster.namesrv_addr
        async with AdminClient(namesrv_addr=address) as admin:
            place = await _fill(admin, address)
            options = DashboardOptions(
                namesrv_addr=address,
                port=0,
                sample_seconds=0.5,
                timeout_seconds=30,
                pipelines_folder=_pipelines(folder),
            )
            users.add(folder / "users.json", "ada", "correct horse")
            guarded = DashboardOptions(namesrv_addr=address, port=0, users_file=folder / "users.json")
            dashboards = Dashboard(options), Dashboard(guarded)
            consumer = PushConsumer("shipping", _take, topics="orders", namesrv_addr=address)
            async with consumer, Supervisor(*dashboards):
                member = consumer.options.client_id
                urls = [dashboard.url for dashboard in dashboards]
                yield House(urls[0], urls[1], admin, cluster.brokers[0].address, member, place)


async def _take(message: Received) -> None:
    return None


async def _fill(admin: AdminClient, address: str) -> str:
    """Returns where a message lies that has a trace."""
    await admin.topics.create("orders", read_queues=4, write_queues=4)
    for topic in ("payments", "returns", "stock-levels"):
        await admin.topics.create(topic, read_queues=2, write_queues=2)
    sent = await filling.traced(address, "shipping", filling.order(0, note="first of the day"))
    await filling.send(address, *(filling.order(number) for number in range(1, 160)))
    await admin.groups.create("reports")
    for queue in (await admin.topics.route("orders")).read_queues:
        await admin.offsets.commit("reports", queue, 3)
    letters = [
        Message("payments", json.dumps({"payment": it, "state": "torn"}).encode(), keys=[f"payment-{it}"])
        for it in range(5)
    ]
    await filling.dead_letters(address, "billing", *letters, Message("payments", b"\x00\xff\x7f", keys=["raw"]))
    return f"{sent.queue.broker_name}:{sent.queue.queue_id}:{sent.queue_offset}"


def _pipelines(folder: Path) -> Path:
    found = folder / "pipelines"
    found.mkdir()
    (found / "orders.json").write_text(json.dumps(pipeline(state="done")))
    (found / "late.json").write_text(json.dumps(pipeline(name="late", state="failed", error="the table is gone")))
    return found


@pytest_asyncio.fixture(params=WIDTHS, loop_scope="module")
async def at(request: pytest.FixtureRequest, browser: Browser, house: House) -> AsyncIterator[Window]:
    async with window(browser, house.url, request.param) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def desk(browser: Browser, house: House) -> AsyncIterator[Window]:
    async with window(browser, house.url, "desk") as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_complains_of_nothing_fits_and_is_accessible(at: Window, name: str) -> None:
    await at.open(PAGES[name])
    if name == "charts":
        await at.page.locator(".chart[data-series=in] polyline").first.wait_for(state="attached")

    await at.check(name)


async def test_nothing_sticks_to_what_it_is_not_part_of(at: Window) -> None:
    """The menu of a phone ends where the page does, and a note under charts keeps its distance."""
    await at.open("/charts")

    sides = await at.page.evaluate(
        """() => {
          const box = it => document.querySelector(it).getBoundingClientRect();
          const [menu, charts, hint] = [".menu summary", ".charts", "main > .hint"].map(box);
          return [menu.width ? menu.right : null, charts.right, hint.top - charts.bottom];
        }"""
    )

    assert sides[0] in (None, sides[1])
    assert sides[2] >= 8


async def test_pages_about_one_thing_complain_of_nothing_either(at: Window, house: House) -> None:
    for name, path in {
        "broker": f"/broker?address={house.broker_addr}",
        "member": f"/member?name=shipping&client={house.member.replace('#', '%23')}",
        "message": f"/message?topic=orders&place={house.traced_place}",
    }.items():
        await at.open(path)
        await at.check(name)


async def test_a_topic_is_created_sent_to_and_deleted_by_clicking(desk: Window, house: House) -> None:
    page = desk.page
    await desk.open("/topics")
    await page.get_by_text("Create a topic").click()
    await page.get_by_label("Name", exact=True).fill("clicked")
    await page.get_by_role("button", name="Create").click()
    await page.get_by_text("Topic clicked is on broker-a, broker-b").wait_for()

    await page.get_by_text("Send a message").click()
    await page.get_by_label("Body", exact=True).fill('{"hello": "world"}')
    await page.get_by_label("Keys").fill("k-1")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_text("Sent as").wait_for()
    assert (await house.admin.messages.by_key("clicked", "k-1"))[0].body == b'{"hello": "world"}'

    await page.get_by_text("Delete it").click()
    await page.get_by_label("Delete clicked and all its messages").check()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_text("Topic clicked is deleted").wait_for()
    assert "clicked" not in await house.admin.topics.names()
    assert desk.complaints == []


async def test_a_group_is_sent_to_the_end_by_clicking(desk: Window, house: House) -> None:
    await house.admin.groups.create("resetting")
    for queue in (await house.admin.topics.route("orders")).read_queues:
        await house.admin.offsets.commit("resetting", queue, 1)
    page = desk.page
    await desk.open("/topic?name=orders")
    await page.get_by_role("row", name="resetting").get_by_role("link", name="Reset its offsets").click()
    await page.locator("select[name=where]").select_option("end")
    await page.get_by_label("Messages may be consumed a second time").check()
    await page.get_by_role("button", name="Reset its offsets").click()

    await page.get_by_text("Group resetting goes on at the end").wait_for()
    assert (await house.admin.offsets.progress("resetting", "orders")).lag == 0


async def test_a_message_is_found_opened_and_sent_again_by_clicking(desk: Window, house: House) -> None:
    page = desk.page
    await desk.open("/messages")
    await page.get_by_label("Topic").fill("orders")
    await page.get_by_label("Key").fill("order-42")
    await page.get_by_role("button", name="Search").click()
    await page.locator("tbody a").first.click()
    await page.get_by_text('"order": 42').first.wait_for()
    await page.get_by_role("button", name="Send it to orders again").click()

    await page.get_by_text("Sent again as").wait_for()
    assert len(await house.admin.messages.by_key("orders", "order-42")) == 2


async def test_dead_letters_are_chosen_sent_again_and_exported_by_clicking(desk: Window, house: House) -> None:
    page = desk.page
    await desk.open("/dead-letters")
    await page.get_by_role("link", name="billing").click()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export all").click()
    lines = (await (await download.value).path()).read_text().splitlines()
    assert len(lines) == 6

    await page.get_by_label("choose all on this page").check()
    await page.get_by_role("button", name="Send to the topic again").click()

    await page.get_by_text("Done with 6 of 6").wait_for()
    assert len(await house.admin.messages.by_key("payments", "raw")) == 2


async def test_charts_go_on_by_themselves(desk: Window) -> None:
    await desk.open("/charts")
    line = desk.page.locator(".chart[data-series=disk] polyline").first

    async with asyncio.timeout(60):
        while len((await line.get_attribute("points") or "").split()) < 4:
            await asyncio.sleep(0.05)
    legend = desk.page.locator(".chart[data-series=lag] .legend")
    assert "shipping:" in (await legend.text_content() or "")


async def test_a_live_page_shows_what_has_changed(desk: Window, house: House) -> None:
    await desk.open("/groups")
    await house.admin.groups.create("newcomer")

    await desk.page.get_by_role("link", name="newcomer").wait_for()


async def test_who_logs_in_sees_the_cluster_and_gets_out_again(browser: Browser, house: House) -> None:
    async with window(browser, house.guarded_url, "phone") as at:
        await at.open("/")
        await at.check("login")
        await at.page.get_by_label("Name").fill("ada")
        await at.page.get_by_label("Password").fill("correct horse")
        await at.page.keyboard.press("Enter")
        await at.page.get_by_role("heading", name="Cluster").wait_for()
        await at.page.get_by_role("button", name="Log out ada").click()
        await at.page.get_by_role("button", name="Log in").wait_for()


async def test_the_menu_is_reached_and_used_with_the_keyboard(at: Window) -> None:
    page = at.page
    await at.open("/")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"

    for _ in range(20):
        await page.keyboard.press("Tab")
        focused = await page.evaluate("document.activeElement.textContent")
        if focused == "Menu":
            await page.keyboard.press("Enter")
        if focused == "Topics":
            break
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await page.keyboard.press("Enter")

    await page.get_by_role("heading", name="Topics").wait_for()
