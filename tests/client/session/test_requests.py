"""Timeouts and signatures of requests."""

import asyncio

import pytest

from kerolox.auth.signing import signature
from kerolox.codes import Version
from kerolox.errors import CallTimeout, ConnectionLost
from kerolox.testing import Cluster
from kerolox.wire.command import decode
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import ext_text
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.clients import HeartBeat
from kerolox.wire.headers.messages import QueryMessage
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from tests.broker.brokers import pulling
from tests.client.sessions import RecordingProducer, options, session_of, silent_server

# Waits for a message that does not come.
LONG_POLL = pulling("TBW102", 0, 0, sys_flag=0x6, suspend_timeout_millis=20_000)


async def test_a_timeout_on_a_silent_connection_aborts_its_other_requests(cluster: Cluster) -> None:
    """Other requests on a silent connection need not wait for their own timeout."""
    with silent_server() as silent:
        async with session_of(options(cluster)) as session:
            patient = asyncio.create_task(session.ask(silent, HeartBeat(), timeout_seconds=60))
            await asyncio.sleep(0)

            with pytest.raises(CallTimeout, match=f"no answer to HEART_BEAT from {silent} within 0.0"):
                await session.call(silent, HeartBeat(), timeout_seconds=0.05)

            with pytest.raises(ConnectionLost):
                await patient


async def test_a_timeout_on_a_live_connection_leaves_it_open(cluster: Cluster) -> None:
    """A broker that responds to other requests is alive; only this response is late."""
    address = cluster.brokers[0].address
    async with session_of(options(cluster)) as session:
        late = asyncio.create_task(session.call(address, LONG_POLL, timeout_seconds=0.2))
        await session.call(address, GetBrokerRuntimeInfo())

        with pytest.raises(CallTimeout):
            await late

        assert session._client.is_connected(address)


async def test_requests_are_signed_if_credentials_are_given(cluster: Cluster) -> None:
    async with session_of(options(cluster, access_key="rocketmq2", secret_key="12345678")) as session:
        (frame,) = FrameReader().feed(session._requests._frame(GetRouteInfoByTopic(topic="t"), 7, 0, b"hello"))
        fields = ext_text(decode(frame).ext)

        assert set(fields) == {"topic", "AccessKey", "Signature"}
        assert fields["Signature"] == signature("12345678", fields, b"hello")
        assert session.is_signing
        assert (await session.routes.get("TBW102")).brokers


async def test_a_unique_key_query_is_signed_so_that_4x_and_5x_brokers_accept_it(cluster: Cluster) -> None:
    """4.x brokers leave the field out of what they verify; 5.x brokers do so only for a client of version 4.9.3."""
    query = QueryMessage(topic="t", key="k", max_num=1, begin_timestamp=0, end_timestamp=1, is_unique_key=True)
    async with session_of(options(cluster, access_key="rocketmq2", secret_key="12345678")) as session:
        (frame,) = FrameReader().feed(session._requests._frame(query, 7, 0, b""))
        command = decode(frame)

    fields = ext_text(command.ext)
    assert (fields.pop("_UNIQUE_KEY_QUERY"), command.version) == ("true", Version.V4_9_3)
    assert fields["Signature"] == signature("12345678", fields, b"")


async def test_heartbeats_have_language_python(cluster: Cluster) -> None:
    async with session_of(options(cluster)) as session:
        await session.routes.get("TBW102")
        session.add_producer("payers", RecordingProducer())
        await session.heartbeat()

        (channel,) = cluster.brokers[0].clients.producers["payers"].values()
        assert channel.language == "PYTHON"
