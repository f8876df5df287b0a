import asyncio
from pathlib import Path

import pytest

from kerolox.dashboard import app
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.server import DashboardOptions
from tests.dashboard.browsing import Visitor, visiting

UNREACHABLE = "127.0.0.1:1"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_a_form_without_the_token_is_refused(visitor: Visitor) -> None:
    assert "has expired" in (await visitor.post("/logout", 403, token="wrong")).text


async def test_a_form_that_is_too_long_is_refused(visitor: Visitor) -> None:
    answer = await visitor.post("/logout", 413, filling="x" * app.FORM_SIZE_MAX)

    assert f"more than {app.FORM_SIZE_MAX} bytes" in answer.text


async def test_a_form_with_too_many_fields_is_refused(visitor: Visitor) -> None:
    answer = await visitor.client.post("/logout", content="&".join(["a=1"] * 1001), headers=FORM)

    assert answer.status_code == 400


async def test_a_form_of_another_content_type_is_refused(visitor: Visitor) -> None:
    answer = await visitor.client.post("/logout", content="{}", headers={"Content-Type": "application/json"})

    assert answer.status_code == 415


async def test_an_incomplete_form_times_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(app, "_FORM_SECONDS", 0.1)
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE), tmp_path) as visitor:
        port = int(visitor.dashboard.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = "POST /logout HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        writer.write((head + "Content-Type: application/x-www-form-urlencoded\r\n\r\ntok").encode())

        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_failing_page_does_not_reveal_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(page: Page) -> None:
        raise ZeroDivisionError("internal details")

    monkeypatch.setitem(app.PAGES, "/", fails)
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE), tmp_path) as visitor:
        text = await visitor.get("/", 500)

    assert "see its log" in text
    assert "internal details" not in text
    assert "internal details" in caplog.text


async def test_actions_are_logged_with_user_and_subject(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kerolox.dashboard.app")
    await visitor.get("/topics")
    await visitor.post("/topics/create", name="orders", queues="1")
    await visitor.post("/topics/create", 400, name="no\nname", queues="1")

    lines = [record.getMessage() for record in caplog.records if record.name == "kerolox.dashboard.app"]
    assert lines[0] == "/topics/create by anonymous, name 'orders': done"
    assert lines[1].startswith("/topics/create by anonymous, name 'no\\nname': ")
    assert ": done" not in lines[1]
    assert len(lines) == 2


async def test_a_read_only_dashboard_changes_nothing(tmp_path: Path) -> None:
    async with visiting(DashboardOptions(namesrv_addr=UNREACHABLE, read_only=True), tmp_path) as visitor:
        visitor.token = (await _token(visitor)) or ""
        login_actions = {"/login", "/logout"}

        for path in app.ACTIONS.keys() - login_actions:
            assert "read-only" in (await visitor.post(path, 403)).text


async def _token(visitor: Visitor) -> str | None:
    """Return the token from the context: the pages of a read-only dashboard without login have no forms."""
    server = visitor.dashboard._server
    assert server is not None
    return server.config.app._context.token  # type: ignore[union-attr, no-any-return]
