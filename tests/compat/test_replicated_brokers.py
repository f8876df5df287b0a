"""Whole brokers of ours and of Apache's in one group: topics, groups, offsets, messages, and reading from a slave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, Producer, PushConsumer
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.messages import Received
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.offsets import ConsumerOffsetTable
from kerolox.wire.bodies.topics import TopicConfigTable
from kerolox.wire.headers.broker import GetAllSubscriptionGroupConfig, GetAllTopicConfig
from kerolox.wire.headers.offsets import GetAllConsumerOffset
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.broker.brokers import BrokerFixture, running
from tests.broker.replication.replicas import SLAVE, name_server, until
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 150.0
_SIZES = {"mappedFileSizeCommitLog": str(16 << 20)}
T = TypeVar("T")


@contextlib.asynccontextmanager
async def in_background(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Start and stop a process in a thread, while the event loop serves it."""
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def fill(namesrv: str, master: str) -> None:
    """Create a topic and a group, send 200 messages, and commit an offset."""
    async with AdminClient(namesrv_addr=namesrv) as admin:
        await admin.topics.create("replicated", read_queues=4, write_queues=4, broker=master)
        group = SubscriptionGroupConfig(group_name="readers", retry_max_times=5)
        await admin.groups.create(group, broker=master)
    async with Producer("senders", namesrv_addr=namesrv, send_timeout_seconds=60) as producer:
        for number in range(200):
            await producer.send(Message("replicated", b"%d" % number))


def committed(offsets: dict[str, dict[int, int]]) -> int:
    return sum(offsets.get("replicated@readers", {}).values())


@pytest.mark.parametrize("version", VERSIONS)
async def test_our_slave_serves_consumers_of_a_java_master_that_is_gone(
    table: Table, version: str, tmp_path: Path
) -> None:
    require_java()
    bodies: set[bytes] = set()
    may_go_on = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        bodies.update(message.body for message in messages)
        if len(bodies) >= 40:
            await may_go_on.wait()

    with table.row(Part.BROKERS, "our slave of a master of Apache's: metadata, reading from it", version) as row:
        async with name_server(tmp_path) as server, contextlib.AsyncExitStack() as stack:
            java = await stack.enter_async_context(in_background(servers.broker(version, server.address)))
            await until_listed(server.address, "broker-a")
            await fill(server.address, java.address)
            slave = await stack.enter_async_context(
                running(tmp_path / "slave", namesrvAddr=server.address, **SLAVE, **_SIZES)
            )
            ours, reader = slave.broker, slave.broker.store.reader
            await until(lambda: sum(reader.max_offset("replicated", n) for n in range(4)) == 200, seconds=_SECONDS)
            await until(lambda: ours.topics.get("replicated") is not None, seconds=_SECONDS)
            await until(lambda: "readers" in ours.groups.groups, seconds=_SECONDS)
            assert ours.groups.groups["readers"].retry_max_times == 5
            async with PushConsumer(
                "readers",
                handle,
                topics="replicated",
                namesrv_addr=server.address,
                consume_from=ConsumeFrom.FIRST_OFFSET,
                pull_threshold_for_queue=5,
            ):
                await until(lambda: len(bodies) >= 40, seconds=_SECONDS)
                java.kill()
                may_go_on.set()
                await until(lambda: len(bodies) == 200, seconds=_SECONDS)
            assert committed(ours.offsets.table) == 200
        row.result = "200 messages read, the last from the slave after the master was killed"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_java_slave_copies_the_metadata_of_our_master(table: Table, version: str, tmp_path: Path) -> None:
    require_java()
    # Slaves of Apache's ask for tables at the VIP port.
    port = {"listenPort": str(servers.broker_port())}
    with table.row(Part.BROKERS, "a slave of Apache's of our master: metadata", version) as row:
        async with (
            name_server(tmp_path) as server,
            running(tmp_path / "master", namesrvAddr=server.address, **port, **_SIZES) as master,
        ):
            await fill(server.address, master.broker.address)
            master.broker.offsets.commit("readers", "replicated", 0, 7)
            role = {"brokerId": "1", "brokerRole": "SLAVE", "slaveReadEnable": "true"}
            async with in_background(servers.broker(version, server.address, properties=role)) as java:
                slave = BrokerFixture(master.broker, master.client)
                async with asyncio.timeout(_SECONDS):
                    while not await has_metadata(slave, java.address):
                        await asyncio.sleep(1)
        row.result = "topics, groups and offsets arrive"


async def has_metadata(fixture: BrokerFixture, address: str) -> bool:
    call = fixture.client.call
    topics = TopicConfigTable.decode((await call(address, GetAllTopicConfig())).body)
    groups = SubscriptionGroupTable.decode((await call(address, GetAllSubscriptionGroupConfig())).body)
    offsets = ConsumerOffsetTable.decode((await call(address, GetAllConsumerOffset())).body)
    return (
        "replicated" in topics.topic_config_table
        and "readers" in groups.subscription_group_table
        and committed(offsets.offset_table) == 7
    )
