"""The master's end: slaves of RocketMQ's, slaves that break the rules, slow slaves."""

import asyncio
import logging
import os
import struct
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.replication.classic_stream import WHOLE_LOG, encode_identity
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.replication.server import ReplicationServer
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.store.config import FlushDiskType
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import StoreHooks
from tests.replication.nodes import (
    FILE_SIZE,
    LOCALHOST,
    RawSlave,
    fill,
    log_files,
    raw_slave,
    running_master,
    store_config,
    until,
)
from tests.store.stores import draft


def log_bytes(master_files: dict[str, bytes], offset: int = 0) -> bytes:
    return b"".join(master_files.values())[offset:]


# Where a slave begins


async def test_a_slave_gets_the_log_from_the_offset_that_it_reports(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store)
        end = master.store.log.end_offset
        await slave.report(FILE_SIZE + 12345)

        start, data = await slave.copy(end)

        assert (start, data) == (FILE_SIZE + 12345, log_bytes(log_files(master.store), FILE_SIZE + 12345))
        await until(lambda: master.server.status()[0].slave_ack_offset == end)
        assert master.server.status()[0].transfer_from_where == end


async def test_an_empty_slave_of_rocketmqs_gets_the_last_file(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store)
        end = master.store.log.end_offset
        await slave.report(0)

        start, data = await slave.copy(end)

        assert start == end - end % FILE_SIZE
        assert data == log_bytes(log_files(master.store), start)


async def test_nothing_is_sent_before_the_first_report_which_java_sends_after_5_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_master(store_config(tmp_path), clock=clock) as master, raw_slave(master) as slave:
        await fill(master.store, 10)
        await until(lambda: master.server.status())
        await clock.advance(5.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await slave.frame()
        assert not master.server.status()[0].in_sync

        await slave.report(0)
        assert (await slave.copy(master.store.log.end_offset))[0] == 0


async def test_frames_to_javas_slaves_have_the_configured_size_and_end_with_their_file(tmp_path: Path) -> None:
    replication = ReplicationConfig(ha_transfer_batch_size=5000)
    async with running_master(store_config(tmp_path), replication) as master, raw_slave(master) as slave:
        await fill(master.store)
        await slave.report(WHOLE_LOG)
        sizes, offset = [], 0
        while offset < master.store.log.end_offset:
            at, body = await slave.frame()
            assert at == offset
            assert at // FILE_SIZE == (at + len(body) - 1) // FILE_SIZE
            sizes.append(len(body))
            offset += len(body)
        assert max(sizes) == 5000


async def test_frames_to_our_own_slaves_are_larger(tmp_path: Path) -> None:
    config = store_config(tmp_path, mapped_file_size_commit_log=1024 * 1024)
    async with running_master(config) as master, raw_slave(master) as slave:
        await fill(master.store, 300)
        (identity,) = struct.unpack(">q", encode_identity(7))
        await slave.report(identity)
        await slave.report(WHOLE_LOG)
        assert len((await slave.frame())[1]) > 100_000


async def test_new_messages_are_sent_at_once(tmp_path: Path) -> None:
    """The clock stands still, so no interval can have passed."""
    async with running_master(store_config(tmp_path), clock=ManualClock()) as master, raw_slave(master) as slave:
        await slave.report(0)
        for _ in range(3):
            appended, _ = await master.store.put(draft())
            offset, body = await slave.frame()
            assert (offset, offset + len(body)) == (appended.physical_offset, appended.end_offset)


async def test_a_slave_on_cold_data_is_served_from_threads(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store)
        expected = log_bytes(log_files(master.store))
        await master.store.flusher.flush()
        for path in master.store.config.commit_log_directory.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        await slave.report(WHOLE_LOG)
        assert (await slave.copy(master.store.log.end_offset))[1] == expected


# Reports that are not believed


@pytest.mark.parametrize("more", [1, 10**12])
async def test_a_slave_with_more_than_the_master_is_refused_and_acknowledges_nothing(
    tmp_path: Path, more: int, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ's issues 3015 and 3349: sends were confirmed although nothing was copied."""
    replication = ReplicationConfig(slave_timeout=50)
    acks = ReplicaAcks(replication)
    async with (
        running_master(store_config(tmp_path), replication, hooks=StoreHooks(copies=acks)) as master,
        raw_slave(master) as slave,
    ):
        await fill(master.store, 10)
        end = master.store.log.end_offset
        await slave.report(end + more)

        assert await slave.is_closed()
        assert f"it reports {end + more}, but this log holds 0 to {end}" in caplog.text
        assert acks.held_offset() == 0
        assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE


async def test_a_later_report_of_more_than_was_sent_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replication = ReplicationConfig()
    acks = ReplicaAcks(replication)
    async with (
        running_master(store_config(tmp_path), replication, hooks=StoreHooks(copies=acks)) as master,
        raw_slave(master) as slave,
    ):
        await master.store.put(draft())
        await slave.report(0)
        _, body = await slave.frame()
        await slave.report(len(body))
        await until(lambda: acks.held_offset() == len(body))
        await slave.report(len(body) + 1)
        assert await slave.is_closed()
        assert acks.held_offset() == 0
        assert f"was sent the log up to {len(body)} only" in caplog.text


async def test_a_slave_below_the_first_file_is_refused_with_a_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ's issue 3388: heartbeats for ever."""
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store)
        master.store.log.delete_before(2 * FILE_SIZE)
        await slave.report(FILE_SIZE)
        assert await slave.is_closed()
        assert f"it reports {FILE_SIZE}, but this log holds {2 * FILE_SIZE} to" in caplog.text
        assert "delete its store" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_slave_whose_next_file_was_deleted_is_disconnected(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store, 20)
        await slave.report(WHOLE_LOG)
        await until(lambda: master.server.status() and master.server.status()[0].transfer_from_where > 0)
        connection = next(iter(master.server._connections))
        connection.pause_writing()
        await fill(master.store, 1000)
        master.store.log.delete_before(master.store.log.end_offset)
        connection.resume_writing()
        assert await slave.is_closed()


async def test_bytes_that_are_no_reports_are_refused(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master, raw_slave(master) as slave:
        await fill(master.store, 3)
        await slave.report(struct.unpack(">q", b"GET / HT")[0])
        assert await slave.is_closed()


# Counting slaves


async def test_two_connections_of_one_slave_count_once(tmp_path: Path) -> None:
    replication = ReplicationConfig(in_sync_replicas=3, slave_timeout=100)
    async with (
        running_master(
            store_config(tmp_path), replication, hooks=StoreHooks(copies=ReplicaAcks(replication))
        ) as master,
        raw_slave(master) as one,
        raw_slave(master) as two,
    ):
        for slave in (one, two):
            await slave.report(0)
        await until(lambda: len(master.server._connections) == 2)
        await until(lambda: master.server.in_sync_count() == 1)
        assert len(master.server.status()) == 1
        assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE


async def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master:
        slaves = [RawSlave(master.connect()) for _ in range(64)]
        await until(lambda: len(master.server._connections) == 64)
        async with raw_slave(master) as slave:
            assert await slave.is_closed()
        for slave in slaves:
            slave.close()
        await until(lambda: not master.server._connections)


# SYNC_MASTER


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_slave_that_does_not_report_in_time_is_a_timeout(tmp_path: Path, flush: FlushDiskType) -> None:
    replication = ReplicationConfig(slave_timeout=300)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    async with (
        running_master(store_config(tmp_path, flush), replication, hooks=hooks) as master,
        raw_slave(master) as slave,
    ):
        assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE
        await slave.report(0)
        await until(lambda: master.server.in_sync_count() == 1)
        assert (await master.store.put(draft()))[1] is AckStatus.FLUSH_SLAVE_TIMEOUT

        before, end = master.store.log.end_offset, 0
        waiting = asyncio.create_task(master.store.put(draft()))
        while end <= before:
            offset, body = await slave.frame()
            end = offset + len(body)
        assert not waiting.done()
        await slave.report(end)
        assert (await waiting)[1] is AckStatus.OK
        not_awaited = draft()
        not_awaited.is_awaited = False
        assert (await master.store.put(not_awaited))[1] is AckStatus.OK


async def test_a_slave_that_is_too_far_behind_is_not_available(tmp_path: Path) -> None:
    replication = ReplicationConfig(slave_timeout=100, ha_max_gap_not_in_sync=1000)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    async with running_master(store_config(tmp_path), replication, hooks=hooks) as master, raw_slave(master) as slave:
        await fill(master.store, 10)
        await slave.report(200)
        await until(lambda: master.server.status() and master.server.status()[0].transfer_from_where > 0)
        assert not master.server.status()[0].in_sync
        assert (await master.store.put(draft()))[1] is AckStatus.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize("is_copied", [True, False])
async def test_of_two_timeouts_that_of_the_slave_wins(tmp_path: Path, is_copied: bool) -> None:
    replication = ReplicationConfig(slave_timeout=10_000 if is_copied else 50)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    config = store_config(tmp_path, FlushDiskType.SYNC_FLUSH, sync_flush_timeout=200)
    async with running_master(config, replication, hooks=hooks) as master, raw_slave(master) as slave:
        await slave.report(0)
        await until(lambda: master.server.in_sync_count() == 1)
        # The disk takes longer than syncFlushTimeout.
        master.store.flusher._syncs_max = 0
        waiting = asyncio.create_task(master.store.put(draft()))
        offset, body = await slave.frame()
        if is_copied:
            await slave.report(offset + len(body))
        status = (await waiting)[1]
        master.store.flusher._syncs_max = 1
        assert status is (AckStatus.FLUSH_DISK_TIMEOUT if is_copied else AckStatus.FLUSH_SLAVE_TIMEOUT)


async def test_senders_that_wait_when_the_store_closes_get_a_timeout(tmp_path: Path) -> None:
    replication = ReplicationConfig(slave_timeout=60_000)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    async with running_master(store_config(tmp_path), replication, hooks=hooks) as master, raw_slave(master) as slave:
        await slave.report(0)
        await until(lambda: master.server.in_sync_count() == 1)
        waiting = asyncio.create_task(master.store.put(draft()))
        await slave.frame()
    assert (await waiting)[1] is AckStatus.FLUSH_SLAVE_TIMEOUT


# Time and speed


async def test_a_quiet_log_is_kept_alive_by_heartbeats(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_master(store_config(tmp_path), clock=clock) as master, raw_slave(master) as slave:
        await fill(master.store, 3)
        end = master.store.log.end_offset
        await slave.report(end)
        await until(lambda: master.server.in_sync_count() == 1)
        for _ in range(6):
            await clock.advance(1)
        assert await slave.frame() == (end, b"")


async def test_a_slave_that_is_silent_for_20_seconds_is_disconnected(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_master(store_config(tmp_path), clock=clock) as master, raw_slave(master) as slave:
        await slave.report(0)
        await until(lambda: master.server.in_sync_count() == 1)
        for _ in range(19):
            await clock.advance(1)
        assert master.server.status()
        await clock.advance(2)
        assert not master.server.status()
        assert await slave.is_closed()


async def test_a_slave_that_does_not_read_delays_nobody_and_takes_little_memory(tmp_path: Path) -> None:
    config = store_config(tmp_path, mapped_file_size_commit_log=4 * 1024 * 1024)
    async with (
        running_master(config) as master,
        raw_slave(master) as slow,
        raw_slave(master) as fast,
    ):
        await slow.report(0)
        await fast.report(0)
        copying = asyncio.create_task(fast.copy(16 * 1024 * 1024))
        while master.store.log.end_offset < 16 * 1024 * 1024:
            await master.store.put(draft(b"x" * 100_000))
        await copying
        waiting = [connection for connection in master.server._connections if not connection._writable.is_set()]
        assert len(waiting) == 1
        transport = waiting[0]._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 1024 * 1024


async def test_the_bytes_per_second_can_be_limited(tmp_path: Path) -> None:
    clock = ManualClock()
    replication = ReplicationConfig(ha_flow_control_enable=True, max_ha_transfer_byte_in_second=10_000)
    async with running_master(store_config(tmp_path), replication, clock=clock) as master, raw_slave(master) as slave:
        await fill(master.store, 200)
        await slave.report(WHOLE_LOG)
        got = 0
        for second in range(1, 4):
            while got < second * 10_000:
                got += len((await slave.frame())[1])
            assert got == second * 10_000
            assert master.server.status()[0].transfer_from_where == got
            await clock.advance(1)
        assert master.server.status()[0].transferred_byte_in_second == 10_000


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async with running_master(store_config(tmp_path)) as master:
        port = int(master.address.partition(":")[2])
        server = ReplicationServer(master.store, ReplicationConfig(), SystemClock(), host=LOCALHOST, port=port)
        with pytest.raises(ConfigurationError, match=f"{port} .haListenPort.*in use"):
            await server.open()
