"""A store directory is carried from a Java broker to ours and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kerolox.errors import TopicNotFound
from kerolox.message.message import Message
from kerolox.message.record import decode, encode
from kerolox.remoting.client import Client
from kerolox.runtime.service import Supervisor
from kerolox.store.check import check
from kerolox.store.commit_log import Draft
from kerolox.store.configuration import StoreConfig
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from tests.apache import VERSIONS
from tests.apache.processes import run_java
from tests.apache.requirements import require_java
from tests.apache.servers import broker, name_server

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "carried"
SENT_THERE, SENT_HERE = 500, 300


def configuration(root: Path) -> StoreConfig:
    """What `tests.apache.servers` makes a broker write with."""
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=16 << 20,
        mapped_file_size_consume_queue=60_000,
        max_hash_slot_num=10_000,
        max_index_num=40_000,
    )


def messages_of(store: Store) -> list[Message]:
    """Returns every message of the topic, read by its queues."""
    found: list[Message] = []
    for (topic, queue_id), queue in store.queues.items():
        offset = queue.min_offset
        while topic == TOPIC and offset < queue.max_offset:
            got = store.reader.get(topic, queue_id, offset)
            assert got.status is GetStatus.FOUND
            found += [decode(record, check_crc=True) for record in got.records]
            offset = got.next_offset
    return found


async def registered(namesrv: str) -> None:
    """Returns when a broker that creates topics on demand has registered."""
    async with Client() as client, asyncio.timeout(60):
        while True:
            try:
                await client.call(namesrv, GetRouteInfoByTopic(topic="TBW102"))
                return
            except TopicNotFound:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_is_carried_from_java_to_ours_and_back(version: str, tmp_path: Path) -> None:
    require_java()
    root = tmp_path / "store"
    places = {"storePathRootDir": str(root), "storePathCommitLog": str(root / "commitlog")}
    with name_server(version) as naming:
        with broker(version, naming.address, properties=places) as serving:
            await registered(naming.address)
            sent = run_java(version, "Produce.java", naming.address, TOPIC, str(SENT_THERE))
            assert f"sent {SENT_THERE}\n" in sent.stdout, sent
            serving.terminate()

        report = check(configuration(root))
        assert (report.complaints, report.records >= SENT_THERE) == ([], True)
        store = Store(configuration(root))
        async with Supervisor(store):
            carried = messages_of(store)
            assert len(carried) == SENT_THERE
            for message in carried[::25]:
                unique_key = message.get("UNIQ_KEY").encode()
                assert [found.physical_offset for found in store.reader.find(TOPIC, unique_key)] == [
                    message.physical_offset
                ]
            for number in range(SENT_HERE):
                like = carried[number]
                record = encode(Message(TOPIC, b"from here %d" % number, like.properties, like.queue_id))
                await store.put(Draft(TOPIC, like.queue_id, record))
        assert check(configuration(root)).complaints == []

        with broker(version, naming.address, properties=places):
            await registered(naming.address)
            total = str(SENT_THERE + SENT_HERE)
            consumed = run_java(version, "Consume.java", naming.address, TOPIC, "reader", total, "60")
            assert f"consumed {total}\n" in consumed.stdout, consumed
            sent = run_java(version, "Produce.java", naming.address, TOPIC, "10")
            assert "sent 10\n" in sent.stdout, sent

    store = Store(configuration(root))
    async with Supervisor(store):
        assert len(messages_of(store)) == SENT_THERE + SENT_HERE + 10
