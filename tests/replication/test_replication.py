"""A master and slaves of our own: equal logs, queues and indexes."""

import asyncio
from pathlib import Path

import pytest

from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.store.config import FlushDiskType
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store, StoreHooks
from tests.replication.nodes import (
    FILE_SIZE,
    assert_equal,
    fill,
    log_files,
    running_master,
    running_slave,
    store_config,
    until,
)
from tests.store.stores import draft, put

SYNC = FlushDiskType.SYNC_FLUSH


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_an_empty_slave_gets_all_files_and_then_what_is_sent(tmp_path: Path, flush: FlushDiskType) -> None:
    async with running_master(store_config(tmp_path / "master")) as master:
        await fill(master.store)
        assert master.store.log.end_offset > 5 * FILE_SIZE
        async with running_slave(store_config(tmp_path / "slave", flush), master.address) as slave:
            await until(lambda: slave.store.held_offset == master.store.log.end_offset)
            assert_equal(master.store, slave.store)

            await fill(master.store, seed=2)
            await until(lambda: slave.store.held_offset == master.store.log.end_offset)
            assert_equal(master.store, slave.store)
            (status,) = master.server.status()
            await until(lambda: master.server.status()[0].diff == 0)
            assert status.in_sync
            assert slave.client.status().max_offset == master.store.log.end_offset


async def test_an_empty_slave_begins_where_a_master_whose_first_files_were_deleted_does(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path / "master")) as master:
        await fill(master.store)
        await master.store.flush_behind.flush()
        assert master.store.log.delete_before(2 * FILE_SIZE) == 2
        async with running_slave(store_config(tmp_path / "slave"), master.address) as slave:
            await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
            assert log_files(slave.store) == log_files(master.store)
        async with running_slave(store_config(tmp_path / "slave"), master.address) as slave:
            await master.store.put(draft())
            await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
            assert log_files(slave.store) == log_files(master.store)


async def test_a_slave_of_an_empty_master_waits_and_gets_everything(tmp_path: Path) -> None:
    async with (
        running_master(store_config(tmp_path / "master")) as master,
        running_slave(store_config(tmp_path / "slave"), master.address) as slave,
    ):
        await until(lambda: master.server.status() and master.server.status()[0].transfer_from_where == 0)
        await fill(master.store, 20)
        await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
        assert_equal(master.store, slave.store)


async def test_a_restarted_slave_continues_where_it_was(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path / "master")) as master:
        for seed in range(4):
            await fill(master.store, 60, seed)
            async with running_slave(store_config(tmp_path / "slave"), master.address) as slave:
                await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
                assert_equal(master.store, slave.store)


async def test_a_restarted_master_is_found_again(tmp_path: Path) -> None:
    replication = ReplicationConfig()
    async with running_master(store_config(tmp_path / "master")) as master:
        await fill(master.store, 30)
        port = int(master.address.partition(":")[2])
        slave_running = running_slave(store_config(tmp_path / "slave"), master.address, replication)
        slave = await slave_running.__aenter__()
        await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
    try:
        async with running_master(store_config(tmp_path / "master"), port=port) as master:
            await fill(master.store, 30, seed=3)
            await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)
            assert_equal(master.store, slave.store)
    finally:
        await slave_running.__aexit__(None, None, None)


async def test_a_promoted_slave_continues_log_and_queues(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path / "master")) as master:
        await fill(master.store)
        expected = {key: master.store.append_offset(*key) for key, _ in master.store.queues.items()}
        end = master.store.log.end_offset
        async with running_slave(store_config(tmp_path / "slave"), master.address) as slave:
            await until(lambda: slave.store.log.end_offset == end)
            slave.client.set_master(None)
            await until(lambda: not slave.client.status().activated)
            await slave.store.end_copy()

            for (topic, queue_id), offset in expected.items():
                appended, status = await slave.store.put(draft(b"new", topic, queue_id))
                assert (appended.queue_offset, status) == (offset, AckStatus.OK)


async def test_a_slave_follows_the_master_that_it_is_told(tmp_path: Path) -> None:
    async with (
        running_master(store_config(tmp_path / "a")) as first,
        running_master(store_config(tmp_path / "b")) as second,
        running_slave(store_config(tmp_path / "slave"), None) as slave,
    ):
        await fill(first.store, 10)
        slave.client.set_master(first.address)
        await until(lambda: slave.store.log.end_offset == first.store.log.end_offset)
        assert slave.client.status().master_addr == first.address
        slave.client.set_master(None)
        await until(lambda: not first.server.status())
        await fill(second.store, 10)
        assert log_files(first.store).keys() == log_files(second.store).keys()
        await second.store.put(draft(b"one more"))
        slave.client.set_master(second.address)
        await until(lambda: slave.store.log.end_offset == second.store.log.end_offset)
        assert slave.client.status().master_addr == second.address


# SYNC_MASTER


def sync_hooks(config: ReplicationConfig) -> StoreHooks:
    return StoreHooks(copies=ReplicaAcks(config))


@pytest.mark.parametrize("slave_flush", FlushDiskType)
@pytest.mark.parametrize("master_flush", FlushDiskType)
async def test_a_sync_master_acknowledges_what_its_slave_holds(
    tmp_path: Path, master_flush: FlushDiskType, slave_flush: FlushDiskType
) -> None:
    replication = ReplicationConfig(slave_timeout=20_000)
    async with (
        running_master(
            store_config(tmp_path / "m", master_flush), replication, hooks=sync_hooks(replication)
        ) as master,
        running_slave(store_config(tmp_path / "s", slave_flush), master.address) as slave,
    ):
        _, status = await master.store.put(draft())
        assert status in (AckStatus.OK, AckStatus.SLAVE_NOT_AVAILABLE)
        await until(lambda: master.server.in_sync_count() == 1)
        for _ in range(20):
            results = await asyncio.gather(*[master.store.put(draft(b"x" * 500)) for _ in range(10)])
            assert {status for _, status in results} == {AckStatus.OK}
            assert slave.store.held_offset >= max(appended.end_offset for appended, _ in results)
            if slave_flush is SYNC:
                assert slave.store.flusher.durable_offset >= slave.store.held_offset


async def test_three_copies_need_two_slaves(tmp_path: Path) -> None:
    replication = ReplicationConfig(in_sync_replicas=3, slave_timeout=20_000)
    async with running_master(store_config(tmp_path / "m"), replication, hooks=sync_hooks(replication)) as master:
        async with running_slave(store_config(tmp_path / "s1"), master.address):
            await until(lambda: master.server.in_sync_count() == 1)
            assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE
            # On the same host, but another slave.
            async with running_slave(store_config(tmp_path / "s2"), master.address):
                await until(lambda: master.server.in_sync_count() == 2)
                assert (await master.store.put(draft()))[1] is AckStatus.OK
        await until(lambda: not master.server.status())
        assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE


async def test_with_automatic_lowering_sends_wait_for_the_slaves_in_sync(tmp_path: Path) -> None:
    replication = ReplicationConfig(in_sync_replicas=3, enable_auto_in_sync_replicas=True, slave_timeout=20_000)
    async with running_master(store_config(tmp_path / "m"), replication, hooks=sync_hooks(replication)) as master:
        assert (await master.store.put(draft()))[1] is AckStatus.OK
        async with running_slave(store_config(tmp_path / "s1"), master.address) as slave:
            await until(lambda: master.server.in_sync_count() == 1)
            appended, status = await master.store.put(draft())
            assert (status, slave.store.held_offset >= appended.end_offset) == (AckStatus.OK, True)


async def test_an_async_master_does_not_wait(tmp_path: Path) -> None:
    replication = ReplicationConfig()
    hooks = StoreHooks(copies=ReplicaAcks(replication, is_sync_master=lambda: False))
    async with running_master(store_config(tmp_path / "m"), replication, hooks=hooks) as master:
        assert (await master.store.put(draft()))[1] is AckStatus.OK


def test_a_store_on_its_own_is_not_a_copy(tmp_path: Path) -> None:
    store = Store(store_config(tmp_path))
    store.recover()
    assert store.is_empty
    put(store, draft())
    assert not store.is_empty
