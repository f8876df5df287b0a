"""Store directories with every kind of message are moved from a Java broker to Kerolox and back."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from kerolox.message import property_names
from kerolox.message.records.record import decode
from kerolox.message.sysflag import HOSTS_MASK
from kerolox.runtime.service import Supervisor
from kerolox.store.store import Store
from tests.apache import VERSIONS
from tests.apache.requirements import require_java, unmet
from tests.apache.servers import name_server
from tests.compat.broker_reader import Contents
from tests.compat.java_store import TOPIC, JavaStore, RunningBroker, Snapshot
from tests.compat.sent_messages import DIVERTED, SentMessage, parse, visible
from tests.compat.shared_store import (
    assert_holds,
    by_id,
    by_key,
    by_queue,
    checked,
    configuration,
    files_in,
    keys_of,
)
from tests.compat.store_tables import (
    SYSTEM_TOPICS,
    read_topics,
    write_delay_offsets,
    write_groups,
    write_offsets,
    write_topics,
)
from tests.compat.store_writer import QUEUES, write_in_process
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 450


async def read_with_kerolox(
    root: Path, sent: Iterable[SentMessage], snapshot: Snapshot | None = None, *, is_index_complete: bool = True
) -> Contents:
    """Open the directory with Kerolox, check that it contains all sent messages, and return the records by queue.

    With a snapshot, checks that queues have the same bytes, and that lookups by id and by key find the same.
    """
    checked(root)
    store = Store(configuration(root))
    async with Supervisor(store):
        contents = by_queue(store)
        assert_holds(store, sent, TOPIC)
        keys = keys_of(contents)
        key_offsets = by_key(store, keys)
        assert all(key_offsets.values()) or not is_index_complete
        if snapshot is not None:
            assert contents == snapshot.contents
            assert key_offsets == snapshot.key_offsets
            for records in contents.values():
                for record in records:
                    assert by_id(store, decode(record).offset_id) == record
    checked(root)
    return contents


async def assert_serves(broker: RunningBroker, contents: Contents) -> None:
    """Assert that Java serves these records with the same bytes; there may be newer ones."""
    served = await broker.reader.by_queue()
    assert {queue: served[queue][: len(records)] for queue, records in contents.items()} == contents


def assert_finds(java: JavaStore, sent: Iterable[SentMessage], *, is_index_complete: bool = True) -> None:
    """Assert that Java's tools find all messages by id, and by key those that are in the topic itself."""
    reachable = [one for one in sent if one.kind != "ipv6"]
    settled = [one for one in reachable if one.kind not in DIVERTED and is_index_complete]
    queries = [f"id {one.offset_id}" for one in reachable] + [f"key {one.keys[0]}" for one in settled]
    assert java.query(queries) == [f"{one.offset_id} {one.digest}" for one in reachable + settled]


def pending(sent: Iterable[SentMessage]) -> dict[str, str]:
    return {one.unique_key: one.digest for one in sent if one.kind == "pending"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_is_moved_from_java_to_kerolox_and_back(version: str, tmp_path: Path, table: Table) -> None:
    require_java()
    with name_server(version) as naming:
        java = JavaStore(version, naming.address, tmp_path / "store")
        root, port, has_timers = java.root, java.port, java.has_timers
        write_topics(root, SYSTEM_TOPICS)

        with table.row(Part.STORE, "Kerolox reads a store written by Java: same bytes by queue, key and id", version):
            async with java.running_broker() as broker:
                there = java.send("there", COUNT)
                assert java.collect("first", len(visible(there))) == visible(there)
                await broker.wait_for_ops(there)
                snapshot = await broker.snapshot()
            assert all(number > 1 for number in files_in(root))
            await read_with_kerolox(root, there, snapshot)

        with table.row(
            Part.STORE, "Java serves messages added by Kerolox, and delivers delayed and pending ones", version
        ):
            here = write_in_process(root, TOPIC, "here", COUNT, port, has_timers=has_timers)
            contents = await read_with_kerolox(root, there + here)
            async with java.running_broker(transactionTimeOut="1000", transactionCheckInterval="2000") as broker:
                expected = visible(there + here) | pending(there + here)
                with java.committing_producer() as producer:
                    assert java.collect("second", len(expected)) == expected
                    asked = {line.split()[1] for line in producer.output().splitlines() if line.startswith("asked ")}
                assert asked == set(pending(there + here))
                await assert_serves(broker, contents)
                assert_finds(java, here)

        with table.row(Part.STORE, "Kerolox reads messages added by Java", version):
            async with java.running_broker() as broker:
                more = java.send("more", COUNT)
                expected |= visible(more)
                assert java.collect("third", len(expected)) == expected
                await broker.wait_for_ops(there + here + more)
                snapshot = await broker.snapshot()
            contents = await read_with_kerolox(root, there + here + more, snapshot)

        with table.row(Part.STORE, "Java recovers and serves the store of a killed Kerolox process", version):
            killed = write_in_process(root, TOPIC, "killed", COUNT, port, has_timers=has_timers, is_killed=True)
            assert (root / "abort").exists()
            async with java.running_broker() as broker:
                expected |= visible(killed)
                assert java.collect("fourth", len(expected)) == expected
                await assert_serves(broker, contents)
                # After an unclean stop, Java drops the newest index file and indexes again only records newer than the
                # checkpoint of the queues, so it may not find a key.
                assert_finds(java, killed, is_index_complete=False)
                snapshot = await broker.snapshot()
            await read_with_kerolox(root, there + here + more + killed, snapshot, is_index_complete=False)


@pytest.mark.parametrize("version", VERSIONS)
async def test_kerolox_finds_messages_that_a_killed_java_broker_acknowledged(
    version: str, tmp_path: Path, table: Table
) -> None:
    require_java()
    what = "Kerolox finds all messages that Java acknowledged under SYNC_FLUSH before SIGKILL"
    with name_server(version) as naming, table.row(Part.STORE, what, version) as row:
        java = JavaStore(version, naming.address, tmp_path / "store")
        write_topics(java.root, SYSTEM_TOPICS)
        async with java.running_broker(flushDiskType="SYNC_FLUSH") as broker:
            with java.background_sender("acknowledged", 1_000_000) as sender:
                eventually(lambda: sender.output().count("\n") > COUNT, 120, "messages are acknowledged")
                broker.process.kill()
                eventually(lambda: not sender.is_running, 60, "the sender gives up")
                acknowledged = parse(sender.output().splitlines())
        row.result = f"{len(acknowledged)} of {len(acknowledged)} found"
        assert len(acknowledged) >= COUNT
        assert (java.root / "abort").exists()

        store = Store(configuration(java.root))
        async with Supervisor(store):
            assert_holds(store, acknowledged, TOPIC)
        contents = await read_with_kerolox(java.root, acknowledged)

        async with java.running_broker() as broker:
            await assert_serves(broker, contents)


@pytest.mark.parametrize("version", VERSIONS)
async def test_kerolox_reads_records_with_ipv6_hosts(version: str, tmp_path: Path, table: Table) -> None:
    require_java()
    if not has_ipv6():
        unmet("needs IPv6 on the loopback")
    what = "Kerolox reads messages with IPv6 born hosts and store hosts"
    settings = {"java.net.preferIPv4Stack": "false", "java.net.preferIPv6Addresses": "true"}
    with name_server(version) as naming, table.row(Part.STORE, what, version):
        java = JavaStore(version, naming.address, tmp_path / "store", host="::1", settings=settings)
        write_topics(java.root, SYSTEM_TOPICS)
        async with java.running_broker(brokerIP1="::1", brokerIP2="::1", bindAddress="::1") as broker:
            there = java.send("there", 20)
            assert java.collect("reader", len(visible(there))) == visible(there)
            await broker.wait_for_ops(there)
            snapshot = await broker.snapshot()

        contents = await read_with_kerolox(java.root, there, snapshot)
    hosts = {decode(record).sys_flag & HOSTS_MASK for records in contents.values() for record in records}
    assert hosts == {HOSTS_MASK}


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listening:
            listening.bind(("::1", 0))
    except OSError:
        return False
    return True


# A directory that Kerolox has created


SKIPPED = 10


def write_tables(root: Path) -> None:
    """Write tables with a topic, two groups, offsets of one group, and a delay level with one delivered message."""
    write_topics(root, {TOPIC: QUEUES, **SYSTEM_TOPICS})
    write_groups(root, "served", "reader")
    write_offsets(root, {f"{TOPIC}@reader": {0: SKIPPED, 1: 0, 2: 0, 3: 0}})
    write_delay_offsets(root, {2: 1})


@pytest.mark.parametrize("version", VERSIONS)
async def test_java_serves_and_extends_a_directory_created_by_kerolox(
    version: str, tmp_path: Path, table: Table
) -> None:
    require_java()
    what = "Java serves a store and tables written by Kerolox, and Kerolox reads them again"
    with name_server(version) as naming, table.row(Part.STORE, what, version):
        java = JavaStore(version, naming.address, tmp_path / "store")
        here = write_in_process(java.root, TOPIC, "here", COUNT, java.port, has_timers=java.has_timers)
        write_tables(java.root)
        contents = await read_with_kerolox(java.root, here)
        skipped = {decode(record).get(property_names.UNIQ_KEY) for record in contents[TOPIC, 0][:SKIPPED]}
        # According to the delay offset, the first of two messages has been delivered.
        skipped.add(next(one.unique_key for one in here if one.kind == "delayed"))

        async with java.running_broker(autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false") as broker:
            expected = {key: digest for key, digest in visible(here).items() if key not in skipped}
            assert java.collect("reader", len(expected)) == expected
            await assert_serves(broker, contents)
            assert_finds(java, here)
            there = java.send("there", COUNT)
            # Delayed messages are delivered before the snapshot is taken.
            assert java.collect("reader", len(visible(there))) == visible(there)
            await broker.wait_for_ops(here + there)
            snapshot = await broker.snapshot()

        await read_with_kerolox(java.root, here + there, snapshot)
        assert read_topics(java.root)[TOPIC].write_queue_nums == QUEUES
