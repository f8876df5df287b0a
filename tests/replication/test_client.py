"""The slave's end: masters of RocketMQ's, masters that break the rules or fall silent."""

from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.replication.client import ReplicationClient
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.store.config import FlushDiskType
from kerolox.store.store import Store
from tests.replication.nodes import (
    FILE_SIZE,
    assert_equal,
    fill,
    log_files,
    raw_master,
    running_master,
    running_slave,
    store_config,
    until,
)
from tests.store.stores import draft, put


async def filled(root: Path, count: int = 200) -> Store:
    """Return a store whose log a raw master sends."""
    async with running_master(store_config(root)) as master:
        await fill(master.store, count)
    store = Store(store_config(root))
    store.recover()
    return store


def log_bytes(store: Store) -> bytes:
    return b"".join(log_files(store).values())


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_an_empty_slave_copies_the_whole_log_of_a_master_of_rocketmqs(
    tmp_path: Path, flush: FlushDiskType
) -> None:
    """It reports 1, and Java's master sends the log from its second byte on, in frames of 32 KiB."""
    source = await filled(tmp_path / "master")
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s", flush), master.address) as slave:
        assert await master.first_report() == 1
        assert master.reports()[0] < 0
        for at in range(1, len(data), FILE_SIZE):
            master.send(at, data[at : at + FILE_SIZE])
        await until(lambda: slave.store.held_offset == len(data))
        assert_equal(source, slave.store)
        await until(lambda: master.reports()[-1] == len(data))
        assert all(report <= len(data) for report in master.reports())


async def test_an_empty_slave_begins_at_the_first_offset_of_a_master_of_rocketmqs(tmp_path: Path) -> None:
    source = await filled(tmp_path / "master")
    data = log_bytes(source)[FILE_SIZE:]
    async with (
        raw_master() as master,
        running_slave(store_config(tmp_path / "s"), master.address, min_offset=FILE_SIZE) as slave,
    ):
        assert await master.first_report() == FILE_SIZE
        master.send(FILE_SIZE, data)
        await until(lambda: slave.store.log.end_offset == source.log.end_offset)
        assert log_bytes(slave.store) == data


async def test_an_empty_slave_takes_the_last_file_if_the_master_has_no_first(tmp_path: Path) -> None:
    source = await filled(tmp_path / "master")
    start = source.log.end_offset - source.log.end_offset % FILE_SIZE
    data = log_bytes(source)[start:]
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address) as slave:
        assert await master.first_report() == 1
        master.send(1)
        await until(lambda: len(master.received) == 2)
        assert await master.first_report() == 0
        master.send(start, data)
        await until(lambda: slave.store.log.end_offset == source.log.end_offset)
        assert log_bytes(slave.store) == data


async def test_a_slave_reports_whole_records_only(tmp_path: Path) -> None:
    source = await filled(tmp_path / "master", 3)
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address) as slave:
        await master.first_report()
        master.send(0, data[:-1])
        await until(lambda: slave.store.copy_offset == len(data) - 1)
        await until(lambda: len(master.reports()) == 3)
        assert master.reports()[-1] == slave.store.log.end_offset < len(data) - 1
        # A heartbeat has the offset of the bytes, not of the records.
        master.send(len(data) - 1)
        master.send(len(data) - 1, data[-1:])
        await until(lambda: master.reports()[-1] == len(data))
        assert len(master.received) == 1


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_after_a_lost_connection_the_incomplete_record_is_copied_again(
    tmp_path: Path, flush: FlushDiskType
) -> None:
    source = await filled(tmp_path / "master", 5)
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s", flush), master.address) as slave:
        await master.first_report()
        master.send(0, data[:-5])
        await until(lambda: slave.store.copy_offset == len(data) - 5)
        master.connections[-1].close()
        await until(lambda: len(master.received) == 2)
        asked = await master.first_report()
        assert asked == slave.store.log.end_offset
        master.send(asked, data[asked:])
        await until(lambda: slave.store.held_offset == len(data))
        assert_equal(source, slave.store)


@pytest.mark.parametrize("is_heartbeat", [True, False])
async def test_a_gap_closes_the_connection_with_a_reason(
    tmp_path: Path, is_heartbeat: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = await filled(tmp_path / "master", 5)
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address) as slave:
        await master.first_report()
        master.send(0, data)
        await until(lambda: slave.store.log.end_offset == len(data))
        master.send(len(data) + 7, b"" if is_heartbeat else b"x" * 50)
        await until(lambda: len(master.received) == 2)
        assert await master.first_report() == len(data)
        assert f"continues at {len(data) + 7}, this copy ends at {len(data)}" in caplog.text


async def test_damaged_bytes_close_the_connection_and_are_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = await filled(tmp_path / "master", 5)
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address) as slave:
        await master.first_report()
        master.send(0, data[:30] + b"\xff" + data[31:])
        await until(lambda: len(master.received) == 2)
        assert slave.store.is_empty
        assert "the record at 0 declares the physical offset" in caplog.text


async def test_a_frame_that_is_too_large_closes_the_connection(tmp_path: Path) -> None:
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address):
        await master.first_report()
        master.connections[-1].write(b"\x7f" * 12)
        await until(lambda: len(master.received) == 2)


async def test_a_silent_master_is_noticed_although_the_slave_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ 4.9 compares with its own last write, which its heartbeats renew."""
    clock = ManualClock()
    config = store_config(tmp_path / "s")
    async with raw_master() as master, running_slave(config, master.address, clock=clock) as slave:
        await master.first_report()
        for _ in range(19):
            await clock.advance(1)
        await until(lambda: len(master.reports()) >= 5)
        assert slave.client.status().activated
        await clock.advance(2)
        await until(lambda: not slave.client.status().activated)
        assert "nothing received" in caplog.text
        await clock.advance(5)
        await until(lambda: len(master.received) == 2)


async def test_an_empty_slave_repeats_no_offset_that_it_does_not_hold(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_master(store_config(tmp_path / "m"), clock=clock) as master,
        running_slave(store_config(tmp_path / "s"), master.address, clock=clock) as slave,
    ):
        await until(lambda: master.server.in_sync_count() == 1)
        for _ in range(30):
            await clock.advance(1)
            await until(lambda: master.server.status())
        await master.store.put(draft())
        await until(lambda: slave.store.log.end_offset == master.store.log.end_offset)


async def test_a_slave_that_is_ahead_of_its_master_says_why_nothing_happens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The master has lost its end, or is another one."""
    source = await filled(tmp_path / "s", 20)
    end = source.log.end_offset
    await source.close()
    async with (
        running_master(store_config(tmp_path / "m")) as master,
        running_slave(store_config(tmp_path / "s"), master.address) as slave,
    ):
        await until(lambda: f"its log may not hold {end}" in caplog.text)
        assert f"it reports {end}, but this log holds 0 to 0" in caplog.text
        assert slave.store.log.end_offset == end


async def test_attempts_to_reach_a_master_are_spaced_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    config = store_config(tmp_path / "s")
    async with running_slave(config, "127.0.0.1:1", clock=clock):
        await until(lambda: "has stopped at 0" in caplog.text)
        before = caplog.text.count("has stopped")
        for _ in range(40):
            await clock.advance(0.5)
        await until(lambda: caplog.text.count("has stopped") >= before + 2)
        assert caplog.text.count("has stopped") < 10


async def test_a_full_disk_stops_a_slave_until_there_is_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = await filled(tmp_path / "master", 5)
    data = log_bytes(source)
    async with raw_master() as master, running_slave(store_config(tmp_path / "s"), master.address) as slave:
        await master.first_report()
        slave.store.retention.refusal = "the disk is full"
        master.send(0, data)
        await until(lambda: "the disk is full" in caplog.text)
        slave.store.retention.refusal = None
        await until(lambda: len(master.received) == 2)
        await master.first_report()
        master.send(0, data)
        await until(lambda: slave.store.log.end_offset == len(data))


async def test_an_address_is_checked(tmp_path: Path) -> None:
    client = ReplicationClient(Store(store_config(tmp_path)), ReplicationConfig(), SystemClock())
    with pytest.raises(ConfigurationError, match="host:port"):
        client.set_master("here")


async def test_a_slave_takes_no_sends(tmp_path: Path) -> None:
    async with (
        running_master(store_config(tmp_path / "m")) as master,
        running_slave(store_config(tmp_path / "s"), master.address) as slave,
    ):
        await until(lambda: master.server.status())
        with pytest.raises(Exception, match="send to the master"):
            put(slave.store, draft())
