from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerolox.dashboard.http import users
from kerolox.dashboard.http.login_log import LINES_MAX
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from tests.dashboard.browsing import Visitor, visiting


@dataclass
class LoginFixture:
    visitor: Visitor
    clock: ManualClock


@pytest.fixture
async def login(tmp_path: Path) -> AsyncIterator[LoginFixture]:
    async with login_dashboard(tmp_path) as login:
        yield login


@asynccontextmanager
async def login_dashboard(tmp_path: Path, trusted_proxies: tuple[str, ...] = ()) -> AsyncIterator[LoginFixture]:
    file, clock = tmp_path / "users.json", ManualClock()
    users.add(file, "ada", "correct horse")
    users.add(file, "bob", "battery staple", is_reader=True)
    options = DashboardOptions(
        namesrv_addr="127.0.0.1:1", users_file=file, clock=clock, trusted_proxies=trusted_proxies
    )
    async with visiting(options, tmp_path) as visitor:
        yield LoginFixture(visitor, clock)


async def test_pages_require_a_login(login: LoginFixture) -> None:
    client = login.visitor.client

    assert (await client.get("/")).headers["location"] == "/login"
    assert (await client.get("/charts/data.json")).status_code == 401
    assert (await client.post("/topics/create", data={})).headers["location"] == "/login"
    assert (await client.get("/static/style.css")).status_code == 200


async def test_a_session_lasts_from_login_to_logout(login: LoginFixture) -> None:
    visitor = login.visitor
    await visitor.get("/login")

    answer = await visitor.post("/login", name="ada", password="correct horse")

    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "Log out ada" in await visitor.get("/")
    kept = dict(visitor.client.cookies)
    assert (await visitor.post("/logout")).headers["location"] == "/login"
    visitor.client.cookies.update(kept)
    assert (await visitor.client.get("/")).headers["location"] == "/login"


async def test_failed_logins_lead_to_a_back_off(login: LoginFixture) -> None:
    visitor = login.visitor
    await visitor.get("/login")
    for _ in range(4):
        assert "is wrong" in (await visitor.post("/login", 403, name="ada", password="wrong")).text

    assert "try again in 2 s" in (await visitor.post("/login", 429, name="ada", password="correct horse")).text

    await login.clock.advance(3)
    await visitor.post("/login", 303, name="ada", password="correct horse")


async def test_logins_are_logged_with_user_and_address(login: LoginFixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kerolox.dashboard.http.login_log")
    visitor = login.visitor
    await visitor.get("/login")
    await visitor.post("/login", 403, name="ada", password="wrong")
    await visitor.post("/login", 303, name="ada", password="correct horse")

    assert _logged(caplog) == [
        ("WARNING", "login of user 'ada' from 127.0.0.1 failed: wrong name or password"),
        ("INFO", "user 'ada' logged in from 127.0.0.1"),
    ]


async def test_logins_during_the_back_off_do_not_fill_the_log(
    login: LoginFixture, caplog: pytest.LogCaptureFixture
) -> None:
    visitor = login.visitor
    await visitor.get("/login")
    for _ in range(4):
        await visitor.post("/login", 403, name="ada", password="wrong")
    caplog.clear()
    for _ in range(50):
        await visitor.post("/login", 429, name="ada", password="wrong")

    lines = _logged(caplog)
    assert lines[0][1] == "login of user 'ada' from 127.0.0.1 refused: too many failed logins, wait 2 s"
    assert len(lines) == LINES_MAX + 1
    assert lines[-1][1].startswith(f"more than {LINES_MAX} logins refused during back-off")


async def test_clients_behind_a_trusted_proxy_have_separate_back_offs(tmp_path: Path) -> None:
    async with login_dashboard(tmp_path, trusted_proxies=("127.0.0.0/8",)) as login:
        visitor = login.visitor
        await visitor.get("/login")
        visitor.client.headers["X-Forwarded-For"] = "203.0.113.66"
        for _ in range(4):
            await visitor.post("/login", 403, name="ada", password="wrong")
        answer = await visitor.post("/login", 429, name="ada", password="correct horse")
        assert "too many wrong passwords from 203.0.113.66" in answer.text

        visitor.client.headers["X-Forwarded-For"] = "203.0.113.9"
        await visitor.post("/login", 303, name="ada", password="correct horse")


async def test_a_forwarded_address_from_an_untrusted_client_is_ignored(login: LoginFixture) -> None:
    visitor = login.visitor
    await visitor.get("/login")
    for number in range(4):
        visitor.client.headers["X-Forwarded-For"] = f"203.0.113.{number}"
        await visitor.post("/login", 403, name="ada", password="wrong")

    answer = await visitor.post("/login", 429, name="ada", password="correct horse")

    assert "too many wrong passwords from 127.0.0.1" in answer.text


@pytest.mark.parametrize(
    ("proxies", "scheme", "is_secure"),
    [(("127.0.0.1",), "https", True), (("127.0.0.1",), "http", False), (("10.0.0.7",), "https", False)],
)
async def test_the_cookie_is_secure_if_a_trusted_proxy_reports_tls(
    tmp_path: Path, proxies: tuple[str, ...], scheme: str, is_secure: bool
) -> None:
    async with login_dashboard(tmp_path, trusted_proxies=proxies) as login:
        visitor = login.visitor
        visitor.client.headers["X-Forwarded-Proto"] = scheme
        await visitor.get("/login")

        answer = await visitor.post("/login", name="ada", password="correct horse")

        assert ("; Secure" in answer.headers["set-cookie"]) is is_secure


async def test_a_reader_sees_read_only_and_cannot_change_anything(login: LoginFixture) -> None:
    visitor = login.visitor
    await visitor.get("/login")
    await visitor.post("/login", name="bob", password="battery staple")

    assert "read-only" in await visitor.get("/")
    assert "read-only" in (await visitor.post("/topics/create", 403, name="orders")).text


async def test_the_form_token_changes_with_the_login(login: LoginFixture) -> None:
    visitor = login.visitor
    await visitor.get("/login")
    before = visitor.token
    await visitor.post("/login", name="ada", password="correct horse")

    await visitor.post("/logout", 403, token=before)


def _logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    records = [record for record in caplog.records if record.name == "kerolox.dashboard.http.login_log"]
    return [(record.levelname, record.getMessage()) for record in records]
