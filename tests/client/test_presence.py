"""What brokers know of who is here."""

import asyncio

import pytest

from kerolox.client import PullConsumer, SimpleConsumer
from kerolox.client.errors import GroupTaken
from kerolox.client.options import Options
from kerolox.errors import NoPermission, SystemFailure
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.clients import HeartbeatData
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken, UnregisterClient
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound
from kerolox.wire.reply import Reply
from tests.broker.brokers import pulling
from tests.client.brokers import Stage
from tests.client.sessions import NotedConsumer, NotedProducer, options, session_of, silent_server, until
from tests.remoting.support import serving

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


async def test_a_broker_that_no_route_names_any_more_is_told_who_leaves(cluster: Cluster) -> None:
    """A consumer that was told which queues to read lets go of its routes before it leaves."""
    clients = cluster.brokers[0].clients
    async with session_of(options(cluster)) as session:
        session.routes.watch("TBW102")
        await session.routes.get("TBW102")
        session.add_consumer("readers", NotedConsumer("TBW102"))
        await session.heartbeat()
        assert set(clients.consumers) == {"readers"}
        session.routes.unwatch("TBW102")

        await session.remove_consumer("readers")

        assert not clients.consumers


class Guarded:
    """A broker that lets nobody in, in the words of 4.x, until it is told to."""

    is_open = False

    @handles(HeartBeat)
    def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        if not self.is_open:
            raise SystemFailure("org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=me")
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        return Reply()


async def test_a_member_whom_a_broker_does_not_let_in_is_told_why(stage: Stage) -> None:
    broker = Guarded()
    async with serving(broker) as server, session_of(Options(namesrv_addr=stage.namesrv_addr)) as session:
        await stage.list_broker("broker-a", server.address)
        session.add_consumer("readers", NotedConsumer("orders"))
        await session.routes.get("orders")

        await session.heartbeat()

        with pytest.raises(NoPermission, match=f"{server.address} does not let this client in: .* accessKey=me"):
            session.check_admitted()

        broker.is_open = True
        await session.heartbeat()

        session.check_admitted()


@pytest.mark.parametrize("consumer", [PullConsumer, SimpleConsumer])
async def test_a_consumer_that_is_not_let_in_does_not_start(
    consumer: type[PullConsumer | SimpleConsumer], stage: Stage
) -> None:
    async with serving(Guarded()) as server:
        await stage.list_broker("broker-a", server.address)
        refused = consumer("readers", topics="orders", namesrv_addr=stage.namesrv_addr)

        with pytest.raises(NoPermission, match="Check signature failed"):
            await refused.start()


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


class SlowToWelcome:
    """A broker that, as Java's does, takes its time over a heartbeat and answers the rest meanwhile."""

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.is_asked = asyncio.Event()
        self.may_welcome = asyncio.Event()

    @handles(HeartBeat)
    async def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        self.is_asked.set()
        await self.may_welcome.wait()
        self.groups |= {member.group_name for member in HeartbeatData.decode(request.body).consumer_data_set or ()}
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        self.groups.discard(request.header.consumer_group or "")
        return Reply()

    @handles(GetMaxOffset)
    def max_offset(self, request: Incoming[GetMaxOffset]) -> Reply[OffsetFound]:
        return Reply(OffsetFound(offset=0))


async def test_a_member_that_leaves_at_once_is_not_counted_by_a_broker_that_was_slow_to_welcome_it(
    stage: Stage,
) -> None:
    """Otherwise its share of the queues is read by nobody until the broker misses it, two minutes later."""
    broker = SlowToWelcome()
    async with serving(broker) as server:
        await stage.list_broker("slow", server.address)
        async with session_of(Options(namesrv_addr=stage.namesrv_addr, client_ip="127.0.0.1")) as session:
            session.add_consumer("readers", NotedConsumer("orders"))
            await session.routes.get("orders")
            await broker.is_asked.wait()

            leaving = asyncio.create_task(session.remove_consumer("readers"))
            # What was sent before this has been taken once this is answered.
            await session.call(server.address, GetMaxOffset(topic="orders", queue_id=0))
            broker.may_welcome.set()
            await leaving
            await session.heartbeat()

    assert broker.groups == set()
