"""Registration of producers and consumers with brokers."""

import asyncio

import pytest

from kerolox.client import PullConsumer, SimpleConsumer
from kerolox.client.errors import GroupTaken
from kerolox.client.options import Options
from kerolox.errors import NoPermission, SystemFailure
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.bodies.clients import HeartbeatData
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken, UnregisterClient
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound
from kerolox.wire.reply import Reply
from tests.broker.brokers import pulling
from tests.client.brokers import ScriptedCluster
from tests.client.sessions import RecordingConsumer, RecordingProducer, options, session_of, silent_server, until
from tests.remoting.support import serving

# Waits for a message that does not come.
LONG_POLL = pulling("TBW102", 0, 0, sys_flag=0x6, suspend_timeout_millis=20_000)


async def test_a_second_member_of_one_group_is_refused(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        session.add_producer("g", RecordingProducer())
        session.add_consumer("g", RecordingConsumer())

        with pytest.raises(GroupTaken, match="producer"):
            session.add_producer("g", RecordingProducer())
        with pytest.raises(GroupTaken, match="consumer"):
            session.add_consumer("g", RecordingConsumer())


async def test_members_register_by_heartbeat_and_unregister_when_removed(cluster: Cluster) -> None:
    clients = cluster.brokers[0].clients
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", RecordingProducer())
        session.add_consumer("readers", RecordingConsumer("TBW102"))

        await session.heartbeat()

        assert set(clients.producers) == {"payers"}
        assert clients.consumers["readers"].client_ids == [session.client_id]
        assert set(clients.consumers["readers"].subscriptions) == {"TBW102"}
        assert session.broker_versions[cluster.brokers[0].address] > 400

        await session.remove_producer("payers")
        await session.remove_consumer("readers")

        assert not clients.producers
        assert not clients.consumers


async def test_unregister_also_reaches_brokers_that_have_left_all_routes(cluster: Cluster) -> None:
    """A consumer with assigned queues unwatches its routes before it unregisters."""
    clients = cluster.brokers[0].clients
    async with session_of(options(cluster)) as session:
        session.routes.watch("TBW102")
        await session.routes.get("TBW102")
        session.add_consumer("readers", RecordingConsumer("TBW102"))
        await session.heartbeat()
        assert set(clients.consumers) == {"readers"}
        session.routes.unwatch("TBW102")

        await session.remove_consumer("readers")

        assert not clients.consumers


class Guarded:
    """A broker that refuses heartbeats as 4.x brokers with ACL do, until `is_open` is set."""

    is_open = False

    @handles(HeartBeat)
    def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        if not self.is_open:
            raise SystemFailure("org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=me")
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        return Reply()


async def test_a_refused_heartbeat_raises_no_permission_with_the_reason(scripted: ScriptedCluster) -> None:
    broker = Guarded()
    async with serving(broker) as server, session_of(Options(namesrv_addr=scripted.namesrv_addr)) as session:
        await scripted.list_broker("broker-a", server.address)
        session.add_consumer("readers", RecordingConsumer("orders"))
        await session.routes.get("orders")

        await session.heartbeat()

        with pytest.raises(NoPermission, match=f"{server.address} refuses this client: .* accessKey=me"):
            session.check_admitted()

        broker.is_open = True
        await session.heartbeat()

        session.check_admitted()


@pytest.mark.parametrize("consumer", [PullConsumer, SimpleConsumer])
async def test_a_consumer_that_a_broker_refuses_does_not_start(
    consumer: type[PullConsumer | SimpleConsumer], scripted: ScriptedCluster
) -> None:
    async with serving(Guarded()) as server:
        await scripted.list_broker("broker-a", server.address)
        refused = consumer("readers", topics="orders", namesrv_addr=scripted.namesrv_addr)

        with pytest.raises(NoPermission, match="Check signature failed"):
            await refused.start()


async def test_a_new_broker_in_a_route_gets_a_heartbeat_at_once(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        session.add_producer("payers", RecordingProducer())

        await session.routes.get("TBW102")

        await until(lambda: cluster.brokers[0].clients.producers)


async def test_a_new_connection_after_a_loss_gets_a_heartbeat(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", RecordingProducer())
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
        session.add_producer("payers", RecordingProducer())

        await clock.advance(30)
        await until(lambda: session.routes.known("TBW102") and broker.clients.producers)
        broker.clients.unregister(next(iter(broker.clients.producers["payers"])), "payers", None)
        await clock.advance(31)

        await until(lambda: broker.clients.producers)


async def test_ensure_registered_sends_a_heartbeat_only_if_a_member_is_new(cluster: Cluster) -> None:
    producers = cluster.brokers[0].clients.producers
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", RecordingProducer())

        await session.ensure_registered()
        assert set(producers) == {"payers"}
        producers.clear()
        await session.ensure_registered()
        assert not producers

        session.add_producer("others", RecordingProducer())
        await session.ensure_registered()
        assert set(producers) == {"payers", "others"}


async def test_a_silent_broker_does_not_block_heartbeats_to_the_others(cluster: Cluster) -> None:
    with silent_server() as silent:
        async with session_of(options(cluster, mq_client_api_timeout_seconds=0.2)) as session:
            await session.routes.get("TBW102")
            session.routes.brokers["silent"] = {0: silent}
            session.add_producer("payers", RecordingProducer())

            await session.heartbeat()

            assert set(cluster.brokers[0].clients.producers) == {"payers"}
            assert set(session.broker_versions) == {cluster.brokers[0].address}


class SlowHeartbeats:
    """A broker that, like Java's, responds to other requests while it handles a heartbeat."""

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.has_heartbeat = asyncio.Event()
        self.may_respond = asyncio.Event()

    @handles(HeartBeat)
    async def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        self.has_heartbeat.set()
        await self.may_respond.wait()
        self.groups |= {member.group_name for member in HeartbeatData.decode(request.body).consumer_data_set or ()}
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        self.groups.discard(request.header.consumer_group or "")
        return Reply()

    @handles(GetMaxOffset)
    def max_offset(self, request: Incoming[GetMaxOffset]) -> Reply[OffsetFound]:
        return Reply(OffsetFound(offset=0))


async def test_unregister_waits_for_a_heartbeat_in_flight(
    scripted: ScriptedCluster,
) -> None:
    """Otherwise its share of the queues is not consumed until the broker expires it, two minutes later."""
    broker = SlowHeartbeats()
    async with serving(broker) as server:
        await scripted.list_broker("slow", server.address)
        async with session_of(Options(namesrv_addr=scripted.namesrv_addr, client_ip="127.0.0.1")) as session:
            session.add_consumer("readers", RecordingConsumer("orders"))
            await session.routes.get("orders")
            await broker.has_heartbeat.wait()

            leaving = asyncio.create_task(session.remove_consumer("readers"))
            # A response to this means that all requests sent before it have been received.
            await session.call(server.address, GetMaxOffset(topic="orders", queue_id=0))
            broker.may_respond.set()
            await leaving
            await session.heartbeat()

    assert broker.groups == set()
