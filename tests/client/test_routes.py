import asyncio

import pytest

from kerolox.client.routes import Routes, TopicRoute
from kerolox.errors import ConnectFailed, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import BrokerData, QueueData, TopicRouteData


def route_data(
    *brokers: str, read: int = 2, write: int = 2, perm: int = 6, ids: tuple[int, ...] = (0,)
) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(name, "c", {number: f"{name}:{number}" for number in ids}) for name in brokers],
        queue_datas=[QueueData(name, read, write, perm) for name in brokers],
    )


class Fetched:
    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, topic: str) -> TopicRouteData:
        self.asked.append(topic)
        await asyncio.sleep(0)
        answer = self.answers.get(topic, TopicNotFound(topic))
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, TopicRouteData)
        return answer


def test_queues_are_in_order_of_broker_and_number() -> None:
    route = TopicRoute("t", route_data("b", "a", read=1, write=2))

    assert route.write_queues == tuple(MessageQueue(name, number, "t") for name in "ab" for number in range(2))
    assert route.read_queues == (MessageQueue("a", 0, "t"), MessageQueue("b", 0, "t"))


def test_what_has_no_master_is_read_and_not_written() -> None:
    route = TopicRoute("t", route_data("a", ids=(1,)))

    assert route.write_queues == ()
    assert len(route.read_queues) == 2


def test_permissions_of_the_queues_are_heeded() -> None:
    assert TopicRoute("t", route_data("a", perm=4)).write_queues == ()
    assert TopicRoute("t", route_data("a", perm=2)).read_queues == ()


def test_an_ordered_topic_has_the_queues_that_its_configuration_lists() -> None:
    data = route_data("a")
    data.order_topic_conf = "a:3;gone:1;;odd:x"

    assert TopicRoute("t", data).write_queues == (
        *(MessageQueue("a", number, "t") for number in range(3)),
        MessageQueue("gone", 0, "t"),
    )


async def test_a_route_is_asked_for_once() -> None:
    fetched = Fetched(t=route_data("a"))
    routes = Routes(fetched)

    first, second = await asyncio.gather(routes.get("t"), routes.get("t"))

    assert first is second is await routes.get("t") is routes.known("t")
    assert fetched.asked == ["t"]


async def test_an_unknown_topic_is_an_error_to_get_and_none_to_refresh() -> None:
    routes = Routes(Fetched())

    with pytest.raises(TopicNotFound):
        await routes.get("t")
    assert await routes.refresh("t") is None


async def test_what_was_known_stays_when_the_name_servers_forget_it_or_are_away() -> None:
    fetched = Fetched(t=route_data("a"))
    routes = Routes(fetched)
    route = await routes.get("t")
    routes.watch("t")

    fetched.answers = {"t": ConnectFailed("away")}
    await routes.refresh_all()
    fetched.answers = {}
    await routes.refresh_all()

    assert routes.known("t") is route


async def test_who_watches_learns_of_changes_and_only_of_changes() -> None:
    fetched = Fetched(t=route_data("a"))
    routes = Routes(fetched)
    changed: list[TopicRoute] = []
    routes.on_changed.append(changed.append)
    routes.watch("t")

    await routes.get("t")
    await routes.refresh_all()
    fetched.answers["t"] = route_data("a", "b")
    await routes.refresh_all()

    assert [sorted(route.brokers) for route in changed] == [["a"], ["a", "b"]]


async def test_brokers_are_found_by_name_and_id_as_long_as_a_route_names_them() -> None:
    routes = Routes(Fetched(t=route_data("a", ids=(0, 1)), u=route_data("b")))
    counts: list[int] = []
    routes.on_brokers = lambda: counts.append(len(routes.brokers))
    routes.watch("t")
    await routes.get("t")
    await routes.get("u")

    assert (routes.address("a"), routes.address("a", 1), routes.address("b")) == ("a:0", "a:1", "b:0")
    assert routes.address("nobody") is None

    await routes.refresh_all()

    assert routes.address("b") is None
    assert counts == [1, 2, 1]


async def test_a_route_is_forgotten_when_the_last_who_watched_has_left() -> None:
    routes = Routes(Fetched(t=route_data("a")))
    routes.watch("t")
    routes.watch("t")
    await routes.get("t")

    routes.unwatch("t")
    assert routes.known("t") is not None
    routes.unwatch("t")
    assert routes.known("t") is None


async def test_closing_ends_questions_under_way() -> None:
    async def never(topic: str) -> TopicRouteData:
        await asyncio.Event().wait()
        raise AssertionError

    routes = Routes(never)
    asking = asyncio.create_task(routes.get("t"))
    await asyncio.sleep(0)

    await routes.close()

    with pytest.raises(TopicNotFound):
        await asking
