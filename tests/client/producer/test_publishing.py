"""Where topics are sent to."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.client.errors import NoRoute
from kerolox.client.options import Options
from kerolox.client.producer.publishing import Publishing
from kerolox.client.session import Session
from kerolox.errors import TopicNotFound
from tests.client.brokers import TOPIC, Stage
from tests.client.sessions import session_of


@pytest.fixture
async def session(stage: Stage) -> AsyncIterator[Session]:
    async with session_of(Options(namesrv_addr=stage.namesrv_addr, namespace="ns")) as session:
        yield session


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_topic_is_sent_to_by_its_own_route(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "ns%orders", "TBW102", queues=3)
    publishing = Publishing(session, "TBW102", 4)
    assert publishing.known("ns%orders") is None

    queues = await publishing.find("ns%orders", in_seconds(10))

    assert [(queue.queue_id, queue.topic) for queue in queues.queues] == [(0, TOPIC), (1, TOPIC), (2, TOPIC)]
    assert publishing.known("ns%orders") is queues


@pytest.mark.parametrize(("wanted", "made"), [(2, 2), (9, 3)])
async def test_a_new_topic_has_as_many_queues_as_wanted_and_allowed(
    stage: Stage, session: Session, wanted: int, made: int
) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "TBW102", "other", queues=3)

    queues = await Publishing(session, "TBW102", wanted).find("new", in_seconds(10))

    assert len(queues.queues) == made


async def test_a_new_topic_is_sent_to_by_its_own_route_once_it_has_one(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "TBW102", "other")
    publishing = Publishing(session, "TBW102", 1)
    await publishing.find("new", in_seconds(10))

    await stage.list_broker("b", "127.0.0.1:2", "new", "TBW102")
    await session.routes.refresh_all()

    queues = publishing.known("new")
    assert queues is not None
    assert {queue.broker_name for queue in queues.queues} == {"b"}


async def test_a_topic_that_none_may_make_is_not_found(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "some", "other")

    with pytest.raises(TopicNotFound, match="TBW102 has no route either"):
        await Publishing(session, "TBW102", 4).find("new", in_seconds(10))


async def test_a_route_that_comes_in_time_is_waited_for(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "orders", "TBW102", queues=0)
    finding = asyncio.create_task(Publishing(session, "TBW102", 4).find("orders", in_seconds(10)))
    await asyncio.sleep(0)

    await stage.list_broker("b", "127.0.0.1:2", "orders", "TBW102")

    assert {queue.broker_name for queue in (await finding).queues} == {"b"}


async def test_a_route_without_queues_is_an_error_when_time_is_over(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "orders", "TBW102", queues=0)

    with pytest.raises(NoRoute, match="no queue that can be written"):
        await Publishing(session, "TBW102", 4).find("orders", in_seconds(0.05))


async def test_routes_are_kept_fresh_until_closed(stage: Stage, session: Session) -> None:
    await stage.list_broker("a", "127.0.0.1:1", "orders", "TBW102")
    publishing = Publishing(session, "TBW102", 4)
    await publishing.find("orders", in_seconds(10))
    await publishing.follow("TBW102")

    await session.routes.refresh_all()
    assert session.routes.known("orders")
    assert session.routes.known("TBW102")
    publishing.close()

    assert session.routes.known("orders") is None
