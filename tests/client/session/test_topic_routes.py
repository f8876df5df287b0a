import asyncio

import pytest

from kerolox.client.session.topic_routes import TopicRoute, TopicRoutes
from kerolox.errors import ConnectFailed, ProtocolError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import BrokerData, QueueData, TopicRouteData


def route_data(
    *brokers: str, read: int = 2, write: int = 2, perm: int = 6, ids: tuple[int, ...] = (0,)
) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(name, "c", {number: f"{name}:{number}" for number in ids}) for name in brokers],
        queue_datas=[QueueData(name, read, write, perm) for name in brokers],
    )


class FakeFetch:
    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.topics: list[str] = []

    async def __call__(self, topic: str) -> TopicRouteData:
        self.topics.append(topic)
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


def test_a_broker_without_a_master_is_read_and_not_written() -> None:
    route = TopicRoute("t", route_data("a", ids=(1,)))

    assert route.write_queues == ()
    assert len(route.read_queues) == 2


def test_queues_without_permission_are_left_out() -> None:
    assert TopicRoute("t", route_data("a", perm=4)).write_queues == ()
    assert TopicRoute("t", route_data("a", perm=2)).read_queues == ()


def test_an_ordered_topic_has_the_queues_that_its_configuration_lists() -> None:
    data = route_data("a")
    data.order_topic_conf = "a:3;gone:1;;odd:x"

    assert TopicRoute("t", data).write_queues == (
        *(MessageQueue("a", number, "t") for number in range(3)),
        MessageQueue("gone", 0, "t"),
    )


async def test_concurrent_callers_share_one_route_request() -> None:
    fetch = FakeFetch(t=route_data("a"))
    routes = TopicRoutes(fetch)

    first, second = await asyncio.gather(routes.get("t"), routes.get("t"))

    assert first is second is await routes.get("t") is routes.known("t")
    assert fetch.topics == ["t"]


async def test_an_unknown_topic_raises_from_get_and_is_none_from_refresh() -> None:
    routes = TopicRoutes(FakeFetch())

    with pytest.raises(TopicNotFound):
        await routes.get("t")
    assert await routes.refresh("t") is None


async def test_a_known_route_stays_if_refreshing_fails() -> None:
    fetch = FakeFetch(t=route_data("a"))
    routes = TopicRoutes(fetch)
    route = await routes.get("t")
    routes.watch("t")

    fetch.answers = {"t": ConnectFailed("away")}
    await routes.refresh_all()
    fetch.answers = {}
    await routes.refresh_all()

    assert routes.known("t") is route


async def test_listeners_are_called_for_new_and_changed_routes_only() -> None:
    fetch = FakeFetch(t=route_data("a"))
    routes = TopicRoutes(fetch)
    changed: list[TopicRoute] = []
    routes.add_listener(changed.append)
    routes.watch("t")

    await routes.get("t")
    await routes.refresh_all()
    fetch.answers["t"] = route_data("a", "b")
    await routes.refresh_all()

    assert [sorted(route.brokers) for route in changed] == [["a"], ["a", "b"]]


async def test_brokers_are_found_by_name_and_id_while_a_route_has_them() -> None:
    counts: list[int] = []
    routes = TopicRoutes(
        FakeFetch(t=route_data("a", ids=(0, 1)), u=route_data("b")),
        on_brokers_changed=lambda: counts.append(len(routes.brokers)),
    )
    routes.watch("t")
    await routes.get("t")
    await routes.get("u")

    assert (routes.address("a"), routes.address("a", 1), routes.address("b")) == ("a:0", "a:1", "b:0")
    assert routes.address("nobody") is None

    await routes.refresh_all()

    assert routes.address("b") is None
    assert counts == [1, 2, 1]


async def test_a_route_is_forgotten_after_the_last_unwatch() -> None:
    routes = TopicRoutes(FakeFetch(t=route_data("a")))
    routes.watch("t")
    routes.watch("t")
    await routes.get("t")

    routes.unwatch("t")
    assert routes.known("t") is not None
    routes.unwatch("t")
    assert routes.known("t") is None


async def test_close_cancels_requests_in_flight() -> None:
    async def never(topic: str) -> TopicRouteData:
        await asyncio.Event().wait()
        raise AssertionError

    routes = TopicRoutes(never)
    asking = asyncio.create_task(routes.get("t"))
    await asyncio.sleep(0)

    await routes.close()

    with pytest.raises(TopicNotFound):
        await asking


@pytest.mark.parametrize(("read", "write"), [(2**31 - 1, 2), (2, 2**31 - 1), (50_001, 2)])
async def test_a_route_with_more_queues_than_a_client_can_use_is_refused(read: int, write: int) -> None:
    routes = TopicRoutes(FakeFetch(t=route_data("a", "b", read=read, write=write)))

    with pytest.raises(ProtocolError, match=r"the route of topic 't' has \d+ queues, at most 100000 are accepted"):
        await routes.get("t")

    assert routes.known("t") is None


@pytest.mark.parametrize("count", ["100001", "9" * 5000])
async def test_an_order_with_more_queues_than_a_client_can_use_is_refused(count: str) -> None:
    data = route_data("a")
    data.order_topic_conf = f"a:{count}"

    with pytest.raises(ProtocolError, match="at most 100000 are accepted"):
        await TopicRoutes(FakeFetch(t=data)).get("t")


async def test_a_route_that_is_refused_leaves_the_known_one_in_use() -> None:
    fetch = FakeFetch(t=route_data("a"))
    routes = TopicRoutes(fetch)
    routes.watch("t")
    known = await routes.get("t")

    fetch.answers["t"] = route_data("a", read=2**31 - 1)
    await routes.refresh_all()

    assert routes.known("t") is known
