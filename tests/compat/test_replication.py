"""The classic HA stream between our stores and Apache's brokers: logs are equal by their SHA-256."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from kerolox.client import Message, Producer, SendStatus
from kerolox.remoting.client import Client
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store, StoreHooks
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32
from kerolox.wire.headers.namesrv import RegisterBroker
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.name_servers import kerolox_name_server
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed
from tests.replication import nodes
from tests.replication.nodes import running_master, running_slave, until
from tests.store.stores import draft

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

FILE_SIZE = 1 << 20
_SECONDS = 120.0
T = TypeVar("T")


@contextlib.asynccontextmanager
async def in_background(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Start and stop a process in a thread, while the event loop serves it."""
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def sizes(root: Path, **settings: object) -> dict[str, str]:
    return {
        "storePathRootDir": str(root),
        "storePathCommitLog": str(root / "commitlog"),
        "mappedFileSizeCommitLog": str(FILE_SIZE),
        **{key: str(value) for key, value in settings.items()},
    }


def store_config(root: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> StoreConfig:
    return nodes.store_config(root, flush, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=60_000)


def digests(directory: Path, end_offset: int) -> dict[str, str]:
    """Return the SHA-256 of each file of a log up to its end."""
    found = {}
    for path in sorted(directory.iterdir()):
        left = end_offset - int(path.name)
        if left > 0:
            found[path.name] = hashlib.sha256(path.read_bytes()[:left]).hexdigest()
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_java_slave_follows_our_master(table: Table, version: str, tmp_path: Path) -> None:
    require_java()
    replication = ReplicationConfig(slave_timeout=30_000)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    java = tmp_path / "java"
    with table.row(Part.STORE, "a slave of Apache's follows our master", version) as row:
        async with (
            in_background(kerolox_name_server()) as namesrv,
            running_master(store_config(tmp_path / "ours"), replication, hooks=hooks) as master,
        ):
            settings = sizes(java, brokerRole="SLAVE", brokerId=1)
            async with (
                registered_master(namesrv.address, master.address),
                in_background(servers.broker(version, namesrv.address, properties=settings)),
            ):
                await until(lambda: master.server.in_sync_count() == 1, _SECONDS)
                count = 0
                while master.store.log.end_offset < 5 * FILE_SIZE:
                    await asyncio.gather(*[send_one(master.store, count + number) for number in range(50)])
                    count += 50
                appended, status = await master.store.put(draft(b"last"))
                assert status is AckStatus.OK
                end = appended.end_offset
                assert master.server.status()[0].slave_ack_offset == end
                assert digests(java / "commitlog", end) == digests(master.store.config.commit_log_directory, end)
        row.result = "6 files, equal by SHA-256; sends acknowledged"


@contextlib.asynccontextmanager
async def registered_master(namesrv: str, ha_address: str) -> AsyncIterator[None]:
    """Register a master, without a broker behind it: slaves learn the address for replication from the NameServer."""
    body = RegisterBrokerBody().encode()
    request = RegisterBroker(
        broker_id=0,
        body_crc32=crc32(body),
        cluster_name="DefaultCluster",
        broker_addr="127.0.0.1:1",
        ha_server_addr=ha_address,
        broker_name="broker-a",
    )
    async with Client() as client:
        await client.call(namesrv, request, body)
        yield


async def send_one(store: Store, number: int) -> None:
    chance = random.Random(number)
    body = chance.randbytes(chance.choice([0, 100, 1000, 20_000]))
    message = draft(body, f"topic{number % 5}", number % 3, KEYS=f"key{number}", TAGS="red", UNIQ_KEY=f"{number:032X}")
    assert (await store.put(message))[1] is AckStatus.OK


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flush", FlushDiskType)
async def test_our_empty_slave_copies_all_of_a_java_master(
    table: Table, version: str, tmp_path: Path, flush: FlushDiskType
) -> None:
    require_java()
    java = tmp_path / "java"
    port = servers.broker_port()
    settings = sizes(java, brokerRole="SYNC_MASTER", inSyncReplicas=2, slaveTimeout=10_000)
    with table.row(Part.STORE, f"our slave ({flush.value}) follows a master of Apache's", version) as row:
        async with (
            in_background(kerolox_name_server()) as namesrv,
            in_background(servers.broker(version, namesrv.address, port=port, properties=settings)),
        ):
            await until_listed(namesrv.address, "broker-a")
            async with Producer("senders", namesrv_addr=namesrv.address, send_timeout_seconds=60) as producer:
                before = [await send(producer, number) for number in range(1)]
                # Without a slave 4.9 says so at once, 5.x waits for slaveTimeout; they are stored all the same.
                assert set(before) <= {SendStatus.SLAVE_NOT_AVAILABLE, SendStatus.FLUSH_SLAVE_TIMEOUT}
                address = f"127.0.0.1:{port + 1}"
                async with running_slave(store_config(tmp_path / "ours", flush), address) as slave:
                    await until(lambda: slave.store.log.end_offset > 0, _SECONDS)
                    statuses = set()
                    for number in range(10, 400, 10):
                        sent = await asyncio.gather(*[send(producer, number + one) for one in range(10)])
                        statuses |= set(sent)
                    assert statuses == {SendStatus.OK}
                    end = slave.store.log.end_offset
                    assert end > 2 * FILE_SIZE
                    assert digests(slave.store.config.commit_log_directory, end) == digests(java / "commitlog", end)
                # A second one, which was not there from the beginning.
                async with running_slave(store_config(tmp_path / "second", flush), address) as second:
                    await until(lambda: second.store.held_offset >= end, _SECONDS)
                    copied = digests(second.store.config.commit_log_directory, end)
                    assert copied == digests(java / "commitlog", end)
                    assert second.store.log.first_offset == 0
        row.result = "all files from the first on, equal by SHA-256; sends acknowledged"


async def send(producer: Producer, number: int) -> SendStatus:
    chance = random.Random(number)
    body = chance.randbytes(chance.choice([1, 100, 1000, 30_000]))
    return (await producer.send(Message("replicated", body, tag="red", keys=(f"key{number}",)))).status
