from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerolox.dashboard import users
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from tests.dashboard.browsing import Visitor, visiting


@dataclass
class Entrance:
    visitor: Visitor
    clock: ManualClock


@pytest.fixture
async def entrance(tmp_path: Path) -> AsyncIterator[Entrance]:
    file, clock = tmp_path / "users.json", ManualClock()
    users.add(file, "ada", "correct horse")
    users.add(file, "bob", "battery staple", is_reader=True)
    options = DashboardOptions(namesrv_addr="127.0.0.1:1", users_file=file, clock=clock)
    async with visiting(options, tmp_path) as visitor:
        yield Entrance(visitor, clock)


async def test_nothing_is_shown_before_the_login(entrance: Entrance) -> None:
    client = entrance.visitor.client

    assert (await client.get("/")).headers["location"] == "/login"
    assert (await client.get("/charts/data.json")).status_code == 401
    assert (await client.post("/topics/create", data={})).headers["location"] == "/login"
    assert (await client.get("/static/style.css")).status_code == 200


async def test_who_logs_in_sees_the_pages_until_they_log_out(entrance: Entrance) -> None:
    visitor = entrance.visitor
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


async def test_a_wrong_password_is_refused_and_guessing_on_has_to_wait(entrance: Entrance) -> None:
    visitor = entrance.visitor
    await visitor.get("/login")
    for _ in range(4):
        assert "is wrong" in (await visitor.post("/login", 403, name="ada", password="wrong")).text

    assert "try again in 2 s" in (await visitor.post("/login", 429, name="ada", password="correct horse")).text

    await entrance.clock.advance(3)
    await visitor.post("/login", 303, name="ada", password="correct horse")


async def test_a_reader_is_told_and_stopped(entrance: Entrance) -> None:
    visitor = entrance.visitor
    await visitor.get("/login")
    await visitor.post("/login", name="bob", password="battery staple")

    assert "read-only" in await visitor.get("/")
    assert "read-only" in (await visitor.post("/topics/create", 403, name="orders")).text


async def test_the_token_of_the_login_is_not_that_of_who_is_logged_in(entrance: Entrance) -> None:
    visitor = entrance.visitor
    await visitor.get("/login")
    before = visitor.token
    await visitor.post("/login", name="ada", password="correct horse")

    await visitor.post("/logout", 403, token=before)
