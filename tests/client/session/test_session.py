"""A session against real servers."""

import asyncio
from pathlib import Path

import pytest
import trustme

from kerolox.client.errors import ClientError, WrongState
from kerolox.client.options import Options
from kerolox.client.session.session import Session
from kerolox.errors import RemotingError, TopicNotFound
from kerolox.remoting.tls import ServerTls, TlsMode, client_context
from kerolox.testing import Cluster
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.namesrv import GetKVConfig
from tests.broker.brokers import pulling
from tests.client.sessions import RecordingConsumer, options, session_of, silent_server
from tests.remoting.support import Echo, issue, serving

# Waits for a message that does not come.
LONG_POLL = pulling("TBW102", 0, 0, sys_flag=0x6, suspend_timeout_millis=20_000)


async def test_clients_with_one_client_id_share_a_session(cluster: Cluster) -> None:
    shared = options(cluster)
    async with session_of(shared) as first, session_of(shared) as second, session_of(options(cluster)) as other:
        assert first is second
        assert other is not first


async def test_a_client_id_with_different_options_is_refused(cluster: Cluster) -> None:
    async with session_of(options(cluster, instance_name="same")):
        with pytest.raises(ClientError, match="instance_name"):
            await Session.acquire(options(cluster, instance_name="same", namespace="ns"))


async def test_the_last_release_closes_the_session(cluster: Cluster) -> None:
    shared = options(cluster)
    first, second = await Session.acquire(shared), await Session.acquire(shared)

    await first.release()
    assert (await second.routes.get("TBW102")).brokers
    await second.release()

    with pytest.raises(WrongState):
        await second.call(cluster.brokers[0].address, GetBrokerRuntimeInfo())


async def test_consumer_ids_returns_the_members_of_a_group(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as one, session_of(options(cluster)) as two:
        for session in (one, two):
            session.routes.watch("TBW102")
            await session.routes.get("TBW102")
            assert await session.consumer_ids("TBW102", "readers") in ([], [one.client_id])
            session.add_consumer("readers", RecordingConsumer("TBW102"))
            await session.heartbeat()

        assert await one.consumer_ids("TBW102", "readers") == sorted((one.client_id, two.client_id))


async def test_consumer_ids_of_an_unknown_topic_raises_topic_not_found(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        with pytest.raises(TopicNotFound):
            await session.consumer_ids("nowhere", "readers")


async def test_a_name_server_that_is_down_is_skipped(cluster: Cluster) -> None:
    async with session_of(options(cluster, namesrv_addr=f"127.0.0.1:1;{cluster.namesrv_addr}")) as session:
        for _ in range(4):
            assert await session.routes.refresh("TBW102")

        assert session.name_servers.current == cluster.namesrv_addr


async def test_a_name_server_that_hangs_is_skipped(cluster: Cluster) -> None:
    with silent_server() as silent:
        given = options(cluster, namesrv_addr=f"{silent};{cluster.namesrv_addr}", mq_client_api_timeout_seconds=0.4)
        async with session_of(given) as session:
            for _ in range(3):
                assert await session.routes.refresh("TBW102")

            assert session.name_servers.current == cluster.namesrv_addr


async def test_a_session_connects_with_tls(tmp_path: Path) -> None:
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


async def test_background_work_is_not_started_after_close(cluster: Cluster) -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    async with session_of(options(cluster)) as session:
        session.run_in_background(work(), "work")
        await asyncio.sleep(0)
    session.run_in_background(work(), "too late")
    await asyncio.sleep(0)

    assert done == [1]
