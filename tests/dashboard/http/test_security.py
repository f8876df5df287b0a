from pathlib import Path

import pytest

from kerolox.dashboard.http import users
from kerolox.dashboard.server import DashboardOptions
from tests.dashboard.browsing import Visitor, visiting


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "10.0.0.1", "", "localhost.evil.example"])
async def test_foreign_host_names_are_refused(visitor: Visitor, host: str) -> None:
    """DNS rebinding: a foreign site could resolve its own name to 127.0.0.1 and read the pages."""
    answer = await visitor.client.get("/", headers={"Host": host})

    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:99", "[::1]", "LOCALHOST"])
async def test_loopback_host_names_are_accepted(visitor: Visitor, host: str) -> None:
    assert (await visitor.client.get("/static/style.css", headers={"Host": host})).status_code == 200


async def test_the_content_security_policy_allows_only_our_own_files(visitor: Visitor) -> None:
    answer = await visitor.client.get("/")

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "<script>" not in answer.text
    assert "style=" not in answer.text


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_cross_origin_form_is_refused_even_with_the_token(visitor: Visitor, headers: dict[str, str]) -> None:
    data = {"token": visitor.token}

    answer = await visitor.client.post("/logout", data=data, headers=headers)

    assert answer.status_code == 403


async def test_other_methods_are_refused(visitor: Visitor) -> None:
    assert (await visitor.client.put("/")).status_code == 405


async def test_an_unknown_path_is_a_404_page(visitor: Visitor) -> None:
    assert "no such page" in await visitor.see("/nothing", 404)


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ((), "mq.example.com", 200),
        (("mq.example.com",), "mq.example.com:8080", 200),
        (("mq.example.com",), "MQ.example.com", 200),
        (("mq.example.com",), "evil.example", 421),
    ],
)
async def test_only_allowed_hosts_are_accepted_on_other_addresses(
    tmp_path: Path, allowed: tuple[str, ...], host: str, status: int
) -> None:
    users.add(tmp_path / "users.json", "ada", "correct horse")
    options = DashboardOptions(
        namesrv_addr="127.0.0.1:1", host="0.0.0.0", users_file=tmp_path / "users.json", allowed_hosts=allowed
    )
    async with visiting(options, tmp_path) as visitor:
        assert (await visitor.client.get("/login", headers={"Host": host})).status_code == status


async def test_an_allowed_host_is_accepted_on_loopback(tmp_path: Path) -> None:
    options = DashboardOptions(namesrv_addr="127.0.0.1:1", allowed_hosts=("mq.example.com",))
    async with visiting(options, tmp_path) as visitor:
        answer = await visitor.client.get("/static/style.css", headers={"Host": "mq.example.com"})

        assert answer.status_code == 200
