"""The dashboard in a real browser: all pages at two widths, and the main actions."""

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
from kerolox.dashboard.http import users
from kerolox.dashboard.server import Dashboard, DashboardOptions
from kerolox.runtime.service import Supervisor
from kerolox.testing import Cluster
from tests.dashboard import filling
from tests.dashboard.chromium import WIDTHS, Window, chromium, window
from tests.dashboard.pages.test_pipelines import pipeline

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
    "dead-letters-group": "/dead-letters?group=billing",
    "charts": "/charts",
    "pipelines": "/pipelines",
}


@dataclass
class Environment:
    """Two dashboards of a cluster that has data for every page."""

    url: str
    login_url: str
    admin: AdminClient
    broker_addr: str
    member: str
    traced_location: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Environment]:
    folder = tmp_path_factory.mktemp("environment")
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
            with_login = DashboardOptions(namesrv_addr=address, port=0, users_file=folder / "users.json")
            dashboards = Dashboard(options), Dashboard(with_login)
            consumer = PushConsumer("shipping", _ignore, topics="orders", namesrv_addr=address)
            async with consumer, Supervisor(*dashboards):
                member = consumer.options.client_id
                urls = [dashboard.url for dashboard in dashboards]
                yield Environment(urls[0], urls[1], admin, cluster.brokers[0].address, member, place)


async def _ignore(messages: list[Received]) -> None:
    return None


async def _fill(admin: AdminClient, address: str) -> str:
    """Fill the cluster and return the location of a message with a trace."""
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
async def at(request: pytest.FixtureRequest, browser: Browser, environment: Environment) -> AsyncIterator[Window]:
    async with window(browser, environment.url, request.param) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def desktop(browser: Browser, environment: Environment) -> AsyncIterator[Window]:
    async with window(browser, environment.url, "desktop") as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_has_no_errors_fits_the_screen_and_is_accessible(at: Window, name: str) -> None:
    await at.open(PAGES[name])
    if name == "charts":
        await at.page.locator(".chart[data-series=in] polyline").first.wait_for(state="attached")

    await at.check(name)


async def test_menu_and_hint_keep_their_distances(at: Window) -> None:
    """On a phone the menu ends at the edge of the page; the hint below the charts has a margin."""
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


async def test_detail_pages_have_no_errors_fit_the_screen_and_are_accessible(
    at: Window, environment: Environment
) -> None:
    for name, path in {
        "broker": f"/broker?address={environment.broker_addr}",
        "member": f"/member?name=shipping&client={environment.member.replace('#', '%23')}",
        "message": f"/message?topic=orders&place={environment.traced_location}",
    }.items():
        await at.open(path)
        await at.check(name)


async def test_a_topic_can_be_created_sent_to_and_deleted(desktop: Window, environment: Environment) -> None:
    page = desktop.page
    await desktop.open("/topics")
    await page.get_by_text("Create a topic").click()
    await page.get_by_label("Name", exact=True).fill("clicked")
    await page.get_by_role("button", name="Create").click()
    await page.get_by_text("Topic clicked is on broker-a, broker-b").wait_for()

    await page.get_by_text("Send a message").click()
    await page.get_by_label("Body", exact=True).fill('{"hello": "world"}')
    await page.get_by_label("Keys").fill("k-1")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_text("Sent as").wait_for()
    assert (await environment.admin.messages.by_key("clicked", "k-1"))[0].body == b'{"hello": "world"}'

    await page.get_by_text("Delete this topic").click()
    await page.get_by_label("Delete clicked and all its messages").check()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_text("Topic clicked and its messages are deleted").wait_for()
    assert "clicked" not in await environment.admin.topics.names()
    assert desktop.errors == []


async def test_offsets_of_a_group_can_be_reset_to_the_end(desktop: Window, environment: Environment) -> None:
    await environment.admin.groups.create("resetting")
    for queue in (await environment.admin.topics.route("orders")).read_queues:
        await environment.admin.offsets.commit("resetting", queue, 1)
    page = desktop.page
    await desktop.open("/topic?name=orders")
    await page.get_by_role("row", name="resetting").get_by_role("link", name="Reset offsets").click()
    await page.locator("select[name=where]").select_option("end")
    await page.get_by_label("Messages may be consumed again").check()
    await page.get_by_role("button", name="Reset offsets").click()

    await page.get_by_text("Offsets of group resetting are reset to the end").wait_for()
    assert (await environment.admin.offsets.progress("resetting", "orders")).lag == 0


async def test_a_message_can_be_found_opened_and_resent(desktop: Window, environment: Environment) -> None:
    page = desktop.page
    await desktop.open("/messages")
    await page.get_by_label("Topic").fill("orders")
    await page.get_by_label("Key").fill("order-42")
    await page.get_by_role("button", name="Search").click()
    await page.locator("tbody a").first.click()
    await page.get_by_text('"order": 42').first.wait_for()
    await page.get_by_role("button", name="Resend to orders").click()

    await page.get_by_text("Sent again as").wait_for()
    assert len(await environment.admin.messages.by_key("orders", "order-42")) == 2


async def test_dead_letters_can_be_exported_selected_and_resent(desktop: Window, environment: Environment) -> None:
    page = desktop.page
    await desktop.open("/dead-letters")
    await page.get_by_role("link", name="billing").click()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export all").click()
    lines = (await (await download.value).path()).read_text().splitlines()
    assert len(lines) == 6

    await page.get_by_label("select all on this page").check()
    await page.get_by_role("button", name="Resend to the topic").click()

    await page.get_by_text("Done with 6 of 6").wait_for()
    assert len(await environment.admin.messages.by_key("payments", "raw")) == 2


async def test_charts_are_updated_automatically(desktop: Window) -> None:
    await desktop.open("/charts")
    line = desktop.page.locator(".chart[data-series=disk] polyline").first

    async with asyncio.timeout(60):
        while len((await line.get_attribute("points") or "").split()) < 4:
            await asyncio.sleep(0.05)
    legend = desktop.page.locator(".chart[data-series=lag] .legend")
    assert "shipping:" in (await legend.text_content() or "")


async def test_a_live_page_is_updated_automatically(desktop: Window, environment: Environment) -> None:
    await desktop.open("/groups")
    await environment.admin.groups.create("newcomer")

    await desktop.page.get_by_role("link", name="newcomer").wait_for()


async def test_a_user_can_log_in_and_out(browser: Browser, environment: Environment) -> None:
    async with window(browser, environment.login_url, "phone") as at:
        await at.open("/")
        await at.check("login")
        await at.page.get_by_label("Name").fill("ada")
        await at.page.get_by_label("Password").fill("correct horse")
        await at.page.keyboard.press("Enter")
        await at.page.get_by_role("heading", name="Cluster").wait_for()
        await at.page.get_by_role("button", name="Log out ada").click()
        await at.page.get_by_role("button", name="Log in").wait_for()


async def test_the_menu_can_be_used_with_the_keyboard(at: Window) -> None:
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
