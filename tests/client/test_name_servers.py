import pytest

from kerolox.client.name_servers import NameServers
from kerolox.errors import CallTimeout, ConnectFailed, NoPermission, TopicNotFound


class Asked:
    """Answers with what is set for an address, and notes who was asked, and how long it had."""

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


async def test_one_is_asked_until_it_fails_then_the_next() -> None:
    servers = NameServers(["a", "b"])
    first, second = servers.addresses
    asked = Asked(**{first: ConnectFailed("down"), second: "route"})

    assert await servers.ask(asked, timeout_seconds=3) == "route"
    assert await servers.ask(asked, timeout_seconds=3) == "route"

    assert asked.addresses == [first, second, second]


async def test_one_that_hangs_leaves_time_for_the_others() -> None:
    asked = Asked(a="route", b="route", c="route")

    await NameServers(["a", "b", "c"]).ask(asked, timeout_seconds=3)

    assert asked.seconds == [1]


async def test_a_topic_is_unknown_when_all_say_so() -> None:
    servers = NameServers(["a", "b"])
    first, second = servers.addresses
    knows = Asked(**{first: TopicNotFound("just started"), second: "route"})

    assert await servers.ask(knows, timeout_seconds=3) == "route"
    with pytest.raises(TopicNotFound):
        await servers.ask(Asked(a=TopicNotFound("no"), b=TopicNotFound("no")), timeout_seconds=3)


async def test_an_unknown_topic_is_no_reason_to_leave_a_name_server() -> None:
    servers = NameServers(["a", "b"])
    first = servers.current

    with pytest.raises(TopicNotFound):
        await servers.ask(Asked(a=TopicNotFound("no"), b=TopicNotFound("no")), timeout_seconds=3)

    assert servers.current == first


async def test_a_refusal_is_an_answer() -> None:
    asked = Asked(a=NoPermission("no"), b=NoPermission("no"))

    with pytest.raises(NoPermission):
        await NameServers(["a", "b"]).ask(asked, timeout_seconds=3)

    assert len(asked.addresses) == 1


async def test_when_none_answers_the_last_failure_is_raised() -> None:
    with pytest.raises(CallTimeout):
        await NameServers(["a"]).ask(Asked(a=CallTimeout("slow")), timeout_seconds=3)
