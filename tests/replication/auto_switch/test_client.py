"""Replicas in controller mode: they copy, cut what their master does not have, and claim only what they hold."""

import asyncio
import logging
from pathlib import Path

import pytest

from kerolox.replication.auto_switch.epochs import EpochEntry, EpochFile, Epochs
from kerolox.replication.auto_switch.frames import Chunk, MasterLog
from kerolox.runtime.files import RealDisk
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import NotEnoughReplicas
from kerolox.store.log.pending_acks import AckStatus
from tests.replication.auto_switch.groups import Node, raw_master, running
from tests.replication.nodes import assert_equal, fill, log_files, until
from tests.store.stores import draft


async def restarted(root: Path, broker_id: int, master: Node) -> Node:
    """Follow until the log is cut, and return the node to be run next."""
    async with running(Node(root, broker_id)) as node:
        node.follow(master)
        async with asyncio.timeout(20):
            await node.must_restart.wait()
    return Node(root, broker_id)


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_replica_copies_the_log_with_its_epochs(tmp_path: Path, flush: FlushDiskType) -> None:
    master, replica = Node(tmp_path / "1", 1, flush=flush), Node(tmp_path / "2", 2, flush=flush)
    async with running(master), running(replica):
        for epoch in (1, 3):
            await master.lead(epoch)
            await fill(master.store, 60, seed=epoch)
        replica.follow(master)
        await until(lambda: replica.end == master.end)
        assert replica.epoch_log.epochs == master.epoch_log.epochs
        await until(lambda: master.proposals)
        await until(lambda: replica.store.dispatcher.offset == master.end)
        assert_equal(master.store, replica.store)


async def test_after_a_failover_the_old_master_cuts_what_was_not_copied_and_follows(tmp_path: Path) -> None:
    first, second = Node(tmp_path / "1", 1), Node(tmp_path / "2", 2)
    async with running(second):
        async with running(first):
            await first.lead(1)
            await fill(first.store, 40)
            second.follow(first)
            await until(lambda: second.end == first.end)
            second.client.set_master(None)
            agreed = first.end
            await until(lambda: not first.server.status())
            await fill(first.store, 20, seed=2)
            assert first.end > agreed
        await second.lead(2)
        await fill(second.store, 70, seed=3)
        again = await restarted(tmp_path / "1", 1, second)
        async with running(again):
            assert again.end == agreed
            again.follow(second)
            await until(lambda: again.end == second.end)
            await until(lambda: again.store.dispatcher.offset == second.end)
            assert_equal(second.store, again.store)
            assert again.epoch_log.epochs == Epochs([EpochEntry(1, 0), EpochEntry(2, agreed)])


async def test_two_elections_without_a_write_do_not_make_different_logs_equal(tmp_path: Path) -> None:
    """RocketMQ does not record the second epoch, so two masters may write different bytes under one entry."""
    first, second = Node(tmp_path / "1", 1), Node(tmp_path / "2", 2)
    async with running(second):
        async with running(first):
            await first.lead(1)
            await fill(first.store, 10)
            second.follow(first)
            await until(lambda: second.end == first.end)
            common = first.end
            await first.lead(2)
            await fill(first.store, 10, seed=2)
            first_log = log_files(first.store)
        await second.lead(3)
        await second.lead(4)
        await fill(second.store, 10, seed=3)
        assert log_files(second.store) != first_log
        again = await restarted(tmp_path / "1", 1, second)
        async with running(again):
            assert again.end == common
            again.follow(second)
            await until(lambda: again.end == second.end)
            assert log_files(again.store) == log_files(second.store)


async def test_a_replica_whose_epoch_file_is_ahead_of_its_log_reports_only_what_it_holds(tmp_path: Path) -> None:
    """RocketMQ's replica takes the master's end as its own, and reports bytes that it never had."""
    async with running(Node(tmp_path, 2)) as node:
        await node.lead(1)
        await fill(node.store, 5)
        end = node.end
    EpochFile(RealDisk(), tmp_path / "epochFileCheckpoint").save(Epochs([EpochEntry(1, 0), EpochEntry(2, end + 900)]))
    ahead = MasterLog(5_000_000, Epochs([EpochEntry(1, 0), EpochEntry(2, end + 900)]))
    async with running(Node(tmp_path, 2)) as node, raw_master(ahead) as master:
        assert node.epoch_log.epochs == Epochs([EpochEntry(1, 0)])
        node.follow(master.address)
        await until(lambda: master.reports)
        assert set(master.reports) == {end}


async def test_a_master_of_an_older_epoch_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An old master that does not know of the failover must not make a replica cut acknowledged messages."""
    async with running(Node(tmp_path, 2)) as node:
        await node.lead(1)
        await fill(node.store, 5)
        common = node.end
        await node.lead(2)
        await fill(node.store, 5)
        end = node.end
        async with raw_master(MasterLog(common + 999, Epochs([EpochEntry(1, 0)]))) as master:
            node.follow(master.address)
            await until(lambda: "the master has epoch 1" in caplog.text)
            assert not master.reports
        assert node.end == end
        assert not node.must_restart.is_set()


async def test_a_log_without_a_common_epoch_is_kept_and_the_remedy_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Node(tmp_path, 2)) as node:
        await node.lead(1)
        await fill(node.store, 5)
        end = node.end
        async with raw_master(MasterLog(100, Epochs([EpochEntry(2, 0)]))) as master:
            with caplog.at_level(logging.WARNING):
                node.follow(master.address)
                await until(lambda: "delete its store, so that it is copied anew" in caplog.text)
        assert node.end == end


async def test_an_epoch_is_durable_before_its_first_bytes_and_a_label_of_rocketmqs_is_corrected(
    tmp_path: Path,
) -> None:
    """RocketMQ labels the last chunk of an epoch with the next epoch."""
    async with running(Node(tmp_path / "1", 1)) as source, running(Node(tmp_path / "2", 2)) as node:
        await source.lead(1)
        await fill(source.store, 5)
        cut = source.end
        await source.lead(2)
        await fill(source.store, 5, seed=2)
        data, epochs = b"".join(log_files(source.store).values()), source.epoch_log.epochs
        file = EpochFile(RealDisk(), tmp_path / "2" / "epochFileCheckpoint")
        async with raw_master(MasterLog(source.end, epochs)) as master:
            node.follow(master.address)
            await until(lambda: master.reports)
            master.send(Chunk(0, EpochEntry(2, cut), 0, data[:cut]))
            await until(lambda: node.end == cut)
            assert file.load() == Epochs([EpochEntry(1, 0)])
            master.send(Chunk(cut, EpochEntry(2, cut), cut, data[cut:]))
            await until(lambda: node.end == source.end)
            assert file.load() == epochs
            # An older epoch is refused.
            master.send(Chunk(node.end, EpochEntry(1, 0), cut))
            await until(lambda: master.connections == 2)


async def test_readers_see_only_what_the_sync_state_set_holds(tmp_path: Path) -> None:
    master, replica = Node(tmp_path / "1", 1, members_min=2), Node(tmp_path / "2", 2)
    async with running(master), running(replica):
        members = await master.lead(1)
        with pytest.raises(NotEnoughReplicas, match="too few"):
            await master.store.put(draft(b"refused"))
        assert master.end == 0
        replica.follow(master)
        await until(lambda: master.proposals)
        members.decided(frozenset({1, 2}), 2)
        _, status = await master.store.put(draft(b"held by both"))
        assert status is AckStatus.OK
        seen = master.end
        assert master.store.dispatcher.offset == seen
        replica.client.set_master(None)
        await until(lambda: not master.server.status())
        _, status = await master.store.put(draft(b"held by one"))
        assert status is AckStatus.FLUSH_SLAVE_TIMEOUT
        assert master.store.dispatcher.offset == seen < master.end
        assert members.members == {1, 2}


async def test_a_master_that_may_not_acknowledge_refuses_sends_before_it_writes(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as node:
        await node.lead(1)
        await node.store.put(draft(b"one"))
        end = node.end
        node.copies.end()
        with pytest.raises(NotEnoughReplicas, match="not the master"):
            await node.store.put(draft(b"two"))
        assert node.end == end
