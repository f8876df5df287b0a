"""What brokers know of who is here."""

import pytest

from kerolox.client.errors import GroupTaken
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from tests.broker.brokers import pulling
from tests.client.sessions import NotedConsumer, NotedProducer, options, session_of, silent_server, until

# Waits for a message that does not come.
LONG_POLL = pulling("TBW102", 0, 0, sys_flag=0x6, suspend_timeout_millis=20_000)


async def test_a_second_member_of_one_group_is_refused(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        session.add_producer("g", NotedProducer())
        session.add_consumer("g", NotedConsumer())

        with pytest.raises(GroupTaken, match="producer"):
            session.add_producer("g", NotedProducer())
        with pytest.raises(GroupTaken, match="consumer"):
            session.add_consumer("g", NotedConsumer())


async def test_heartbeats_tell_brokers_who_is_here_and_that_they_leave(cluster: Cluster) -> None:
    clients = cluster.brokers[0].clients
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", NotedProducer())
        session.add_consumer("readers", NotedConsumer("TBW102"))

        await session.heartbeat()

        assert set(clients.producers) == {"payers"}
        assert clients.consumers["readers"].client_ids == [session.client_id]
        assert set(clients.consumers["readers"].subscriptions) == {"TBW102"}
        assert session.broker_versions[cluster.brokers[0].address] > 400

        await session.remove_producer("payers")
        await session.remove_consumer("readers")

        assert not clients.producers
        assert not clients.consumers


async def test_a_broker_that_becomes_known_gets_a_heartbeat_at_once(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        session.add_producer("payers", NotedProducer())

        await session.routes.get("TBW102")

        await until(lambda: cluster.brokers[0].clients.producers)


async def test_a_lost_connection_is_made_again_and_the_broker_told_anew(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", NotedProducer())
        await session.heartbeat()

        for connection in list(broker.clients.producers["payers"]):
            connection.abort()
        await until(lambda: not broker.clients.producers)
        with_new_connection = await session.call(broker.address, GetBrokerRuntimeInfo())

        assert with_new_connection.body
        await until(lambda: broker.clients.producers)


async def test_heartbeats_and_routes_are_repeated_every_thirty_seconds(cluster: Cluster) -> None:
    clock = ManualClock()
    broker = cluster.brokers[0]
    async with session_of(options(cluster, clock=clock)) as session:
        session.routes.watch("TBW102")
        session.add_producer("payers", NotedProducer())

        await clock.advance(30)
        await until(lambda: session.routes.known("TBW102") and broker.clients.producers)
        broker.clients.leave(next(iter(broker.clients.producers["payers"])), "payers", None)
        await clock.advance(31)

        await until(lambda: broker.clients.producers)


async def test_introducing_is_waited_for_once(cluster: Cluster) -> None:
    producers = cluster.brokers[0].clients.producers
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", NotedProducer())

        await session.introduce()
        assert set(producers) == {"payers"}
        producers.clear()
        await session.introduce()
        assert not producers

        session.add_producer("others", NotedProducer())
        await session.introduce()
        assert set(producers) == {"payers", "others"}


async def test_a_broker_that_does_not_answer_does_not_keep_the_others_from_knowing(cluster: Cluster) -> None:
    with silent_server() as silent:
        async with session_of(options(cluster, mq_client_api_timeout_seconds=0.2)) as session:
            await session.routes.get("TBW102")
            session.routes.brokers["silent"] = {0: silent}
            session.add_producer("payers", NotedProducer())

            await session.heartbeat()

            assert set(cluster.brokers[0].clients.producers) == {"payers"}
            assert set(session.broker_versions) == {cluster.brokers[0].address}
