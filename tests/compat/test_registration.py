"""Our broker registers with Apache's NameServers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kerolox.errors import TopicNotFound
from kerolox.remoting.client import Client
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.headers.broker import UpdateBrokerConfig
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic, PutKVConfig
from tests.apache import VERSIONS
from tests.apache.requirements import require_java
from tests.apache.servers import name_server
from tests.broker.brokers import BrokerFixture, running
from tests.cli.commands.test_broker import BROKER, configured, started

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300)]


async def queues(client: Client, namesrv: str, topic: str) -> QueueData | None:
    """Return the route of a topic at a NameServer, or None if it is unknown."""
    try:
        reply = await client.call(namesrv, GetRouteInfoByTopic(topic=topic))
    except TopicNotFound:
        return None
    return TopicRouteData.decode(reply.body).queue_datas[0]


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def change(broker: BrokerFixture, text: str) -> None:
    await broker.call(UpdateBrokerConfig(), text.encode())


@pytest.mark.parametrize("version", VERSIONS)
async def test_javas_name_server_has_the_routes_of_our_broker(version: str, tmp_path: Path) -> None:
    require_java()
    with name_server(version) as java:
        namesrv = java.address
        async with Client() as client:
            async with running(tmp_path / "store", namesrvAddr=namesrv) as broker:
                registration, topics = broker.broker.registration, broker.broker.topics

                async def is_known(topic: str, perm: int = 6) -> bool:
                    found = await queues(client, namesrv, topic)
                    return found is not None and found.perm == perm

                # A started broker has registered all its topics.
                assert registration.registered == [namesrv]
                assert await is_known("TBW102", 7)

                # A new topic is registered at once; also compressed, and in parts.
                topics.put(TopicConfig(topic_name="one", attributes={"message.type": "FIFO"}))
                await eventually(lambda: is_known("one"))
                await change(broker, "compressedRegister=true")
                topics.put(TopicConfig(topic_name="two", attributes={"message.type": "FIFO"}))
                await eventually(lambda: is_known("two"))
                await change(broker, "brokerPermission=4")
                await eventually(lambda: is_known("two", 4))
                await change(broker, "compressedRegister=false\nenableSplitRegistration=true\nsplitRegistrationSize=5")
                await change(broker, "brokerPermission=6")
                for topic in ("one", "two", "BenchmarkTest"):
                    await eventually(lambda topic=topic: is_known(topic))  # type: ignore[misc]

                # The DataVersion is queried and is up to date.
                async def is_up_to_date() -> bool:
                    request, body = registration.requests.version()
                    return not (await client.call(namesrv, request, body)).fields.changed

                await eventually(is_up_to_date)

                # The response carries the order topic configuration.
                await client.call(namesrv, PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="one", value="broker-a:16"))
                registration.register_soon()

                async def is_ordered() -> bool:
                    return topics.find("one").order

                await eventually(is_ordered)

            # The broker has stopped.
            async def is_forgotten() -> bool:
                return await queues(client, namesrv, "one") is None

            await eventually(is_forgotten)


@pytest.mark.parametrize("version", VERSIONS)
async def test_light_heartbeats_are_sent_to_name_servers_that_support_them(version: str, tmp_path: Path) -> None:
    """A frozen broker soon leaves the routes of such a NameServer, and returns when it resumes."""
    require_java()
    with name_server(version) as java:
        arguments = ("-c", str(configured(tmp_path)), "-n", java.address)
        async with Client() as client, started(BROKER, tmp_path, *arguments) as (process, _):

            async def is_known() -> bool:
                return await queues(client, java.address, "TBW102") is not None

            await eventually(is_known)
            # Longer than the heartbeat timeout that the broker has registered.
            await asyncio.sleep(20)
            assert await is_known()

            os.kill(process.pid, signal.SIGSTOP)
            if version.startswith("4."):
                await asyncio.sleep(20)
                assert await is_known()
            else:

                async def is_unknown() -> bool:
                    return not await is_known()

                await eventually(is_unknown, seconds=20)
            os.kill(process.pid, signal.SIGCONT)
            await eventually(is_known)
