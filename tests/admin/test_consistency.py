"""Differences between NameServers."""

from kerolox.admin import AdminClient
from kerolox.admin.consistency import View, alone, differences, views
from kerolox.client.options import Options


def test_different_routes_are_reported() -> None:
    one = View("a:1", {"b/0 at x"}, {"orders"}, {"orders": {"b: 8 to read"}})
    two = View("b:2", {"b/0 at x"}, {"orders"}, {"orders": {"b: 4 to read"}})

    assert differences([one, two]) == [
        "The routes of topic orders differ: a:1 says b: 8 to read; b:2 says b: 4 to read."
    ]
    assert differences([one, one]) == []
    assert differences([]) == []


def test_the_options_of_a_single_name_server_keep_the_credentials() -> None:
    asked = alone(Options(namesrv_addr="a:1;b:2", access_key="me", secret_key="s", tls=True), "b:2")

    assert (asked.name_servers, asked.access_key, asked.tls) == (["b:2"], "me", True)


async def test_a_name_server_that_is_down_has_an_error() -> None:
    async with AdminClient(namesrv_addr="127.0.0.1:1") as nobody:
        (seen,) = await views({"127.0.0.1:1": nobody})

    assert seen.error is not None
    assert (seen.info, seen.brokers, seen.topics) == (None, set(), set())
