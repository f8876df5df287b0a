"""Store directories are carried from a Java broker to ours and back, with every kind of message in them."""

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
from tests.compat.carried import (
    assert_holds,
    by_id,
    by_key,
    by_queue,
    checked,
    configuration,
    files_in,
    keys_of,
)
from tests.compat.extending import QUEUES, extend
from tests.compat.java_store import TOPIC, JavaStore, Serving, Snapshot
from tests.compat.sent import DIVERTED, Sent, parse, visible
from tests.compat.served import Contents
from tests.compat.store_tables import (
    SYSTEM_TOPICS,
    read_topics,
    write_delay_offsets,
    write_groups,
    write_offsets,
    write_topics,
)
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 450


async def read_here(
    root: Path, sent: Iterable[Sent], snapshot: Snapshot | None = None, *, is_index_whole: bool = True
) -> Contents:
    """Opens the directory with ours and returns what is in its queues, once everything that was sent is found.

    With a snapshot, ours has the same queues with the same bytes, and finds the same by id and by key.
    """
    checked(root)
    store = Store(configuration(root))
    async with Supervisor(store):
        contents = by_queue(store)
        assert_holds(store, sent, TOPIC)
        keys = keys_of(contents)
        places = by_key(store, keys)
        assert all(places.values()) or not is_index_whole
        if snapshot is not None:
            assert contents == snapshot.contents
            assert places == snapshot.places
            for records in contents.values():
                for record in records:
                    assert by_id(store, decode(record).offset_id) == record
    checked(root)
    return contents


async def assert_serves(serving: Serving, contents: Contents) -> None:
    """Java serves all of these with the same bytes; more may have come since."""
    served = await serving.served.by_queue()
    assert {queue: served[queue][: len(records)] for queue, records in contents.items()} == contents


def assert_finds(java: JavaStore, sent: Iterable[Sent], *, is_index_whole: bool = True) -> None:
    """Java's own tools find each by its id, and by its key what is in the topic itself."""
    reachable = [one for one in sent if one.kind != "ipv6"]
    settled = [one for one in reachable if one.kind not in DIVERTED and is_index_whole]
    questions = [f"id {one.offset_id}" for one in reachable] + [f"key {one.keys[0]}" for one in settled]
    assert java.query(questions) == [f"{one.offset_id} {one.digest}" for one in reachable + settled]


def pending(sent: Iterable[Sent]) -> dict[str, str]:
    return {one.unique_key: one.digest for one in sent if one.kind == "pending"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_is_carried_from_java_to_ours_and_back(version: str, tmp_path: Path, table: Table) -> None:
    require_java()
    with name_server(version) as naming:
        java = JavaStore(version, naming.address, tmp_path / "store")
        root, port, has_timers = java.root, java.port, java.has_timers
        write_topics(root, SYSTEM_TOPICS)

        with table.row(Part.STORE, "a store of Java's is read here: same bytes by queue, key and id", version):
            async with java.serving() as serving:
                there = java.send("there", COUNT)
                assert java.collect("first", len(visible(there))) == visible(there)
                await serving.decided(there)
                snapshot = await serving.snapshot()
            assert all(number > 1 for number in files_in(root))
            await read_here(root, there, snapshot)

        with table.row(Part.STORE, "Java serves what ours has added, and delivers what waits in it", version):
            here = extend(root, TOPIC, "here", COUNT, port, has_timers=has_timers)
            contents = await read_here(root, there + here)
            async with java.serving(transactionTimeOut="1000", transactionCheckInterval="2000") as serving:
                expected = visible(there + here) | pending(there + here)
                with java.settling() as settling:
                    assert java.collect("second", len(expected)) == expected
                    asked = {line.split()[1] for line in settling.output().splitlines() if line.startswith("asked ")}
                assert asked == set(pending(there + here))
                await assert_serves(serving, contents)
                assert_finds(java, here)

        with table.row(Part.STORE, "what Java has added to it is read here", version):
            async with java.serving() as serving:
                more = java.send("more", COUNT)
                expected |= visible(more)
                assert java.collect("third", len(expected)) == expected
                await serving.decided(there + here + more)
                snapshot = await serving.snapshot()
            contents = await read_here(root, there + here + more, snapshot)

        with table.row(Part.STORE, "Java recovers and serves what ours left when it was killed", version):
            killed = extend(root, TOPIC, "killed", COUNT, port, has_timers=has_timers, is_killed=True)
            assert (root / "abort").exists()
            async with java.serving() as serving:
                expected |= visible(killed)
                assert java.collect("fourth", len(expected)) == expected
                await assert_serves(serving, contents)
                # After an unclean stop Java drops the newest index file, and by its source enters again only what is
                # newer than the queues' checkpoint; so a key may not be found there.
                assert_finds(java, killed, is_index_whole=False)
                snapshot = await serving.snapshot()
            await read_here(root, there + here + more + killed, snapshot, is_index_whole=False)


@pytest.mark.parametrize("version", VERSIONS)
async def test_messages_acknowledged_by_a_killed_java_broker_are_found_by_ours(
    version: str, tmp_path: Path, table: Table
) -> None:
    require_java()
    what = "nothing that Java acknowledged under SYNC_FLUSH before SIGKILL is missing here"
    with name_server(version) as naming, table.row(Part.STORE, what, version) as row:
        java = JavaStore(version, naming.address, tmp_path / "store")
        write_topics(java.root, SYSTEM_TOPICS)
        async with java.serving(flushDiskType="SYNC_FLUSH") as serving:
            with java.sending("acknowledged", 1_000_000) as sender:
                eventually(lambda: sender.output().count("\n") > COUNT, 120, "messages are acknowledged")
                serving.process.kill()
                eventually(lambda: not sender.is_running, 60, "the sender gives up")
                acknowledged = parse(sender.output().splitlines())
        row.result = f"{len(acknowledged)} of {len(acknowledged)} found"
        assert len(acknowledged) >= COUNT
        assert (java.root / "abort").exists()

        store = Store(configuration(java.root))
        async with Supervisor(store):
            assert_holds(store, acknowledged, TOPIC)
        contents = await read_here(java.root, acknowledged)

        async with java.serving() as serving:
            await assert_serves(serving, contents)


@pytest.mark.parametrize("version", VERSIONS)
async def test_records_with_ipv6_hosts_are_read_by_ours(version: str, tmp_path: Path, table: Table) -> None:
    require_java()
    if not has_ipv6():
        unmet("needs IPv6 on the loopback")
    what = "messages born and stored at IPv6 addresses are read here"
    settings = {"java.net.preferIPv4Stack": "false", "java.net.preferIPv6Addresses": "true"}
    with name_server(version) as naming, table.row(Part.STORE, what, version):
        java = JavaStore(version, naming.address, tmp_path / "store", host="::1", settings=settings)
        write_topics(java.root, SYSTEM_TOPICS)
        async with java.serving(brokerIP1="::1", brokerIP2="::1", bindAddress="::1") as serving:
            there = java.send("there", 20)
            assert java.collect("reader", len(visible(there))) == visible(there)
            await serving.decided(there)
            snapshot = await serving.snapshot()

        contents = await read_here(java.root, there, snapshot)
    hosts = {decode(record).sys_flag & HOSTS_MASK for records in contents.values() for record in records}
    assert hosts == {HOSTS_MASK}


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listening:
            listening.bind(("::1", 0))
    except OSError:
        return False
    return True


# A directory that ours has begun


SKIPPED = 10


def write_tables(root: Path) -> None:
    """A topic, two groups, one of which has consumed some messages, and a delay level with one delivered."""
    write_topics(root, {TOPIC: QUEUES, **SYSTEM_TOPICS})
    write_groups(root, "served", "reader")
    write_offsets(root, {f"{TOPIC}@reader": {0: SKIPPED, 1: 0, 2: 0, 3: 0}})
    write_delay_offsets(root, {2: 1})


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_directory_begun_by_ours_is_served_and_extended_by_java(
    version: str, tmp_path: Path, table: Table
) -> None:
    require_java()
    what = "a store and its tables, begun here, are served by Java and come back"
    with name_server(version) as naming, table.row(Part.STORE, what, version):
        java = JavaStore(version, naming.address, tmp_path / "store")
        here = extend(java.root, TOPIC, "here", COUNT, java.port, has_timers=java.has_timers)
        write_tables(java.root)
        contents = await read_here(java.root, here)
        skipped = {decode(record).get(property_names.UNIQ_KEY) for record in contents[TOPIC, 0][:SKIPPED]}
        # The offset of its level says that the first of two was delivered before.
        skipped.add(next(one.unique_key for one in here if one.kind == "delayed"))

        async with java.serving(autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false") as serving:
            expected = {key: digest for key, digest in visible(here).items() if key not in skipped}
            assert java.collect("reader", len(expected)) == expected
            await assert_serves(serving, contents)
            assert_finds(java, here)
            there = java.send("there", COUNT)
            # What waits for a time that comes is delivered before anybody looks.
            assert java.collect("reader", len(visible(there))) == visible(there)
            await serving.decided(here + there)
            snapshot = await serving.snapshot()

        await read_here(java.root, here + there, snapshot)
        assert read_topics(java.root)[TOPIC].write_queue_nums == QUEUES
