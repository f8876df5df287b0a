"""Readable queues of a topic on all brokers."""

import asyncio
from pathlib import Path

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.readable_queues import FRESH_SECONDS, ReadableQueues
from kerolox.broker.tables.topics import TopicTable
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue


def create(tmp_path: Path, client: Client, *name_servers: str) -> tuple[ReadableQueues, TopicTable, ManualClock]:
    config, clock = BrokerConfig(), ManualClock()
    config.broker_name = "own"
    topics = TopicTable(config, RealDisk(), tmp_path, clock)
    return ReadableQueues(config, topics, client, lambda: name_servers, clock), topics, clock


async def test_without_name_servers_a_broker_returns_its_own_queues(tmp_path: Path) -> None:
    async with Client() as client:
        queues, topics, _ = create(tmp_path, client)
        topics.create("orders", 2)

        assert await queues.of("orders") == [MessageQueue("own", 0, "orders"), MessageQueue("own", 1, "orders")]
        assert await queues.of("nothing") is None


async def test_queues_of_all_brokers_are_returned_even_while_no_name_server_answers(tmp_path: Path) -> None:
    async with Client() as client:
        async with Cluster(tmp_path / "cluster", brokers=2) as cluster:
            for broker in cluster.brokers:
                broker.topics.create("orders", 2)
            async with asyncio.timeout(20):
                queues, _, clock = create(tmp_path, client, cluster.namesrv_addr)
                found = await queues.of("orders")
                while found is None or len(found) < 4:
                    queues, _, clock = create(tmp_path, client, cluster.namesrv_addr)
                    found = await queues.of("orders")
            assert await queues.of("nothing") is None

        await clock.advance(FRESH_SECONDS + 1)

        assert sorted(await queues.of("orders") or ()) == sorted(found)
        assert {queue.broker_name for queue in found} == {"broker-a", "broker-b"}
