"""The queues of topics that are sent to."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.client.errors import NoRoute
from kerolox.client.options import Options
from kerolox.client.producer.publish_info import PublishInfo
from kerolox.client.session.session import Session
from kerolox.errors import TopicNotFound
from tests.client.brokers import TOPIC, ScriptedCluster
from tests.client.sessions import session_of


@pytest.fixture
async def session(scripted: ScriptedCluster) -> AsyncIterator[Session]:
    async with session_of(Options(namesrv_addr=scripted.namesrv_addr, namespace="ns")) as session:
        yield session


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_an_existing_topic_uses_its_own_route(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "ns%orders", "TBW102", queues=3)
    publish_info = PublishInfo(session, "TBW102", 4)
    assert publish_info.known("ns%orders") is None

    queues = await publish_info.fetch("ns%orders", in_seconds(10))

    assert [(queue.queue_id, queue.topic) for queue in queues.queues] == [(0, TOPIC), (1, TOPIC), (2, TOPIC)]
    assert publish_info.known("ns%orders") is queues


@pytest.mark.parametrize(("wanted", "made"), [(2, 2), (9, 3)])
async def test_a_new_topic_has_as_many_queues_as_requested_and_allowed(
    scripted: ScriptedCluster, session: Session, wanted: int, made: int
) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "TBW102", "other", queues=3)

    queues = await PublishInfo(session, "TBW102", wanted).fetch("new", in_seconds(10))

    assert len(queues.queues) == made


async def test_a_new_topic_uses_its_own_route_once_it_has_one(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "TBW102", "other")
    publish_info = PublishInfo(session, "TBW102", 1)
    await publish_info.fetch("new", in_seconds(10))

    await scripted.list_broker("b", "127.0.0.1:2", "new", "TBW102")
    await session.routes.refresh_all()

    queues = publish_info.known("new")
    assert queues is not None
    assert {queue.broker_name for queue in queues.queues} == {"b"}


async def test_a_topic_that_may_not_be_created_is_not_found(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "some", "other")

    with pytest.raises(TopicNotFound, match="TBW102 has no route either"):
        await PublishInfo(session, "TBW102", 4).fetch("new", in_seconds(10))


async def test_fetch_waits_for_a_writable_queue(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "orders", "TBW102", queues=0)
    finding = asyncio.create_task(PublishInfo(session, "TBW102", 4).fetch("orders", in_seconds(10)))
    await asyncio.sleep(0)

    await scripted.list_broker("b", "127.0.0.1:2", "orders", "TBW102")

    assert {queue.broker_name for queue in (await finding).queues} == {"b"}


async def test_a_route_without_queues_is_an_error_at_the_deadline(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "orders", "TBW102", queues=0)

    with pytest.raises(NoRoute, match="no writable queue"):
        await PublishInfo(session, "TBW102", 4).fetch("orders", in_seconds(0.05))


async def test_routes_are_watched_until_close(scripted: ScriptedCluster, session: Session) -> None:
    await scripted.list_broker("a", "127.0.0.1:1", "orders", "TBW102")
    publish_info = PublishInfo(session, "TBW102", 4)
    await publish_info.fetch("orders", in_seconds(10))
    await publish_info.watch_reply_topic("TBW102")

    await session.routes.refresh_all()
    assert session.routes.known("orders")
    assert session.routes.known("TBW102")
    publish_info.close()

    assert session.routes.known("orders") is None
