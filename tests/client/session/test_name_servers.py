import pytest

from kerolox.client.session.name_servers import NameServers
from kerolox.errors import CallTimeout, ConnectFailed, NoPermission, TopicNotFound


class FakeNameServers:
    """Responds as set for each address, and records addresses and timeouts."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.addresses: list[str] = []
        self.seconds: list[float] = []

    async def __call__(self, address: str, seconds: float) -> object:
        self.addresses.append(address)
        self.seconds.append(seconds)
        answer = self.answers[address]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_failed_name_server_is_replaced_by_the_next() -> None:
    servers = NameServers(["a", "b"])
    first, second = servers.addresses
    asked = FakeNameServers(**{first: ConnectFailed("down"), second: "route"})

    assert await servers.ask(asked, timeout_seconds=3) == "route"
    assert await servers.ask(asked, timeout_seconds=3) == "route"

    assert asked.addresses == [first, second, second]


async def test_the_timeout_is_divided_among_the_name_servers() -> None:
    asked = FakeNameServers(a="route", b="route", c="route")

    await NameServers(["a", "b", "c"]).ask(asked, timeout_seconds=3)

    assert asked.seconds == [1]


async def test_topic_not_found_needs_all_name_servers_to_agree() -> None:
    servers = NameServers(["a", "b"])
    first, second = servers.addresses
    knows = FakeNameServers(**{first: TopicNotFound("just started"), second: "route"})

    assert await servers.ask(knows, timeout_seconds=3) == "route"
    with pytest.raises(TopicNotFound):
        await servers.ask(FakeNameServers(a=TopicNotFound("no"), b=TopicNotFound("no")), timeout_seconds=3)


async def test_topic_not_found_does_not_change_the_current_name_server() -> None:
    servers = NameServers(["a", "b"])
    first = servers.current

    with pytest.raises(TopicNotFound):
        await servers.ask(FakeNameServers(a=TopicNotFound("no"), b=TopicNotFound("no")), timeout_seconds=3)

    assert servers.current == first


async def test_no_permission_is_final() -> None:
    asked = FakeNameServers(a=NoPermission("no"), b=NoPermission("no"))

    with pytest.raises(NoPermission):
        await NameServers(["a", "b"]).ask(asked, timeout_seconds=3)

    assert len(asked.addresses) == 1


async def test_the_last_failure_is_raised_if_no_name_server_responds() -> None:
    with pytest.raises(CallTimeout):
        await NameServers(["a"]).ask(FakeNameServers(a=CallTimeout("slow")), timeout_seconds=3)
