"""A session against real servers."""

import asyncio
from pathlib import Path

import pytest
import trustme

from kerolox.auth.signing import signature
from kerolox.client.errors import ClientError, GroupTaken, WrongState
from kerolox.client.options import Options
from kerolox.client.session import Session
from kerolox.errors import CallTimeout, ConnectionLost, RemotingError, TopicNotFound
from kerolox.remoting.tls import ServerTls, TlsMode, client_context
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from kerolox.wire.command import decode
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import ext_text
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.clients import HeartBeat
from kerolox.wire.headers.namesrv import GetKVConfig, GetRouteInfoByTopic
from tests.broker.brokers import pulling
from tests.client.sessions import NotedConsumer, NotedProducer, options, session_of, silent_server, until
from tests.remoting.support import Echo, issue, serving

# Waits for a message that does not come.
LONG_POLL = pulling("TBW102", 0, 0, sys_flag=0x6, suspend_timeout_millis=20_000)


async def test_those_of_one_client_id_share_a_session(cluster: Cluster) -> None:
    shared = options(cluster)
    async with session_of(shared) as first, session_of(shared) as second, session_of(options(cluster)) as other:
        assert first is second
        assert other is not first


async def test_one_client_id_with_two_configurations_is_refused(cluster: Cluster) -> None:
    async with session_of(options(cluster, instance_name="same")):
        with pytest.raises(ClientError, match="instance_name"):
            await Session.acquire(options(cluster, instance_name="same", namespace="ns"))


async def test_the_last_one_to_leave_closes_it(cluster: Cluster) -> None:
    shared = options(cluster)
    first, second = await Session.acquire(shared), await Session.acquire(shared)

    await first.release()
    assert await second.routes.get("TBW102")
    await second.release()

    with pytest.raises(WrongState):
        await second.call(cluster.brokers[0].address, GetBrokerRuntimeInfo())


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


async def test_the_members_of_a_group_are_known_to_its_brokers(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as one, session_of(options(cluster)) as two:
        for session in (one, two):
            session.routes.watch("TBW102")
            await session.routes.get("TBW102")
            assert await session.consumer_ids("TBW102", "readers") in ([], [one.client_id])
            session.add_consumer("readers", NotedConsumer("TBW102"))
            await session.heartbeat()

        assert await one.consumer_ids("TBW102", "readers") == sorted((one.client_id, two.client_id))


async def test_members_of_a_topic_that_nobody_knows_are_not_to_be_had(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        with pytest.raises(TopicNotFound):
            await session.consumer_ids("nowhere", "readers")


async def test_a_name_server_that_is_down_does_not_matter_while_another_is_up(cluster: Cluster) -> None:
    async with session_of(options(cluster, namesrv_addr=f"127.0.0.1:1;{cluster.namesrv_addr}")) as session:
        for _ in range(4):
            assert await session.routes.refresh("TBW102")

        assert session.name_servers.current == cluster.namesrv_addr


async def test_a_name_server_that_hangs_is_left_for_one_that_answers(cluster: Cluster) -> None:
    with silent_server() as silent:
        given = options(cluster, namesrv_addr=f"{silent};{cluster.namesrv_addr}", mq_client_api_timeout_seconds=0.4)
        async with session_of(given) as session:
            for _ in range(3):
                assert await session.routes.refresh("TBW102")

            assert session.name_servers.current == cluster.namesrv_addr


async def test_silence_ends_a_call_in_time_and_the_connection_with_it(cluster: Cluster) -> None:
    """Others who wait on a connection that went silent need not wait for their own time to be over."""
    with silent_server() as silent:
        async with session_of(options(cluster)) as session:
            patient = asyncio.create_task(session.ask(silent, HeartBeat(), timeout_seconds=60))
            await asyncio.sleep(0)

            with pytest.raises(CallTimeout, match=f"no answer to HEART_BEAT from {silent} within 0.0"):
                await session.call(silent, HeartBeat(), timeout_seconds=0.05)

            with pytest.raises(ConnectionLost):
                await patient


async def test_a_late_answer_ends_the_call_and_not_the_connection(cluster: Cluster) -> None:
    """A broker that answers others is alive; only this answer is late."""
    address = cluster.brokers[0].address
    async with session_of(options(cluster)) as session:
        late = asyncio.create_task(session.call(address, LONG_POLL, timeout_seconds=0.2))
        await session.call(address, GetBrokerRuntimeInfo())

        with pytest.raises(CallTimeout):
            await late

        assert session._client.is_connected(address)


async def test_requests_are_signed_for_who_has_credentials(cluster: Cluster) -> None:
    async with session_of(options(cluster, access_key="rocketmq2", secret_key="12345678")) as session:
        (frame,) = FrameReader().feed(session._calls._frame(GetRouteInfoByTopic(topic="t"), 7, 0, b"hello"))
        fields = ext_text(decode(frame).ext)

        assert set(fields) == {"topic", "AccessKey", "Signature"}
        assert fields["Signature"] == signature("12345678", fields, b"hello")
        assert session.is_signing
        assert await session.routes.get("TBW102")


async def test_tls_is_between_a_session_and_servers(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server_tls = ServerTls(issue(authority, tmp_path, "127.0.0.1"))
    async with serving(Echo(), tls_mode=TlsMode.ENFORCING, tls=server_tls) as server:
        for tls in (True, client_context(tmp_path / "ca.pem")):
            async with session_of(Options(namesrv_addr=server.address, tls=tls)) as session:
                reply = await session.call(server.address, GetKVConfig(namespace="", key="k"))
                assert reply.fields.value == "k"

        async with session_of(Options(namesrv_addr=server.address, connect_timeout_seconds=1)) as session:
            with pytest.raises(RemotingError):
                await session.call(server.address, GetKVConfig(namespace="", key="k"))


async def test_clients_say_that_they_are_python(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", NotedProducer())
        await session.heartbeat()

        (channel,) = cluster.brokers[0].clients.producers["payers"].values()
        assert channel.language == "PYTHON"
