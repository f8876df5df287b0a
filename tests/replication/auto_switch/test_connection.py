"""The master's end of the auto-switch stream, with replicas that do as they are told."""

from pathlib import Path

import pytest

from kerolox.replication.auto_switch.epoch_log import StaleEpoch
from kerolox.replication.auto_switch.epochs import EpochEntry, Epochs
from kerolox.runtime.clock import ManualClock
from tests.replication.auto_switch.groups import Node, raw_replica, running
from tests.replication.nodes import FILE_SIZE, fill, log_files, until


async def test_the_handshake_is_answered_with_the_end_of_the_log_and_its_epochs(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(3)
        await fill(master.store, 20)
        first_end = master.end
        await master.lead(4)
        async with raw_replica(master) as replica:
            answer = await replica.greet()
        assert answer == (first_end, Epochs([EpochEntry(3, 0), EpochEntry(4, first_end)]))


async def test_every_chunk_lies_in_one_epoch_and_carries_its_own(tmp_path: Path) -> None:
    """In RocketMQ the last chunk of an epoch carries the next one's number and start."""
    async with running(Node(tmp_path, 1)) as master:
        for epoch in (1, 2, 5):
            await master.lead(epoch)
            await fill(master.store, 30, seed=epoch)
        async with raw_replica(master) as replica:
            epochs = (await replica.greet()).epochs
            replica.report(0)
            chunks = await replica.chunks(master.end)
        assert b"".join(chunk.data for chunk in chunks) == b"".join(log_files(master.store).values())
        assert {chunk.epoch.epoch for chunk in chunks} == {1, 2, 5}
        for chunk in chunks:
            last = chunk.physical_offset + len(chunk.data) - 1
            assert epochs.at(chunk.physical_offset) == epochs.at(last) == chunk.epoch
            assert chunk.physical_offset // FILE_SIZE == last // FILE_SIZE


@pytest.mark.parametrize("is_from_last_file", [False, True])
async def test_an_empty_replica_gets_the_whole_log_or_the_last_file(tmp_path: Path, is_from_last_file: bool) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(1)
        await fill(master.store)
        async with raw_replica(master) as replica:
            await replica.greet(is_from_last_file=is_from_last_file)
            replica.report(0)
            chunks = await replica.chunks(master.end)
        assert chunks[0].physical_offset == (master.end - master.end % FILE_SIZE if is_from_last_file else 0)


async def test_a_report_of_more_than_was_sent_closes_the_connection_and_is_not_believed(tmp_path: Path) -> None:
    """RocketMQ believes it: a report of 10^12 from an empty replica put it into the sync state set."""
    async with running(Node(tmp_path, 1)) as master:
        members = await master.lead(1)
        await fill(master.store, 20)
        for first, second in ((10**12, None), (0, 10**12), (-1, None), (0, -1)):
            async with raw_replica(master) as replica:
                await replica.greet()
                replica.report(first)
                if second is not None:
                    await replica.chunks(master.end)
                    replica.report(second)
                assert await replica.is_closed()
        assert master.proposals == []
        assert members.members == {1}


async def test_a_report_of_what_was_not_sent_yet_closes_the_connection(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(1)
        await fill(master.store, 20)
        async with raw_replica(master) as replica:
            await replica.greet()
            # Both arrive at once, before anything is sent.
            replica.report(0)
            replica.report(master.end)
            assert await replica.is_closed()
        assert master.proposals == []


async def test_a_replica_that_has_caught_up_is_proposed_and_a_learner_is_not(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(1)
        await fill(master.store, 20)
        async with raw_replica(master) as learner, raw_replica(master) as replica:
            await learner.greet(3, is_learner=True)
            await replica.greet(2)
            for each in (learner, replica):
                each.report(0)
                await each.chunks(master.end)
                each.report(master.end)
            await until(lambda: master.proposals)
            await until(lambda: len([s for s in master.server.status() if s.slave_ack_offset == master.end]) == 2)
        assert set(master.proposals) == {frozenset({1, 2})}


async def test_a_lost_member_stays_required_until_the_controller_agrees(tmp_path: Path) -> None:
    """RocketMQ 5.4 and 5.5 drop it at once, and acknowledge what the next master may lack."""
    async with running(Node(tmp_path, 1)) as master:
        members = await master.lead(1)
        members.decided(frozenset({1, 2, 3}), 2)
        await fill(master.store, 0)
        async with raw_replica(master) as second:
            await second.greet(2)
            second.report(0)
            async with raw_replica(master) as third:
                await third.greet(3)
                third.report(0)
                await until(lambda: len(master.server.status()) == 2)
            await until(lambda: master.proposals)
            assert master.proposals[-1] == {1, 2}
            assert members.required == {1, 2, 3}
            assert members.confirm(10**6) == 0


async def test_a_replica_that_reports_without_a_handshake_is_closed(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(1)
        async with raw_replica(master) as replica:
            replica.report(0)
            assert await replica.is_closed()


async def test_a_broker_that_is_not_master_or_has_the_same_id_is_not_followed(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        async with raw_replica(master) as replica:
            with pytest.raises(ConnectionError):
                await replica.greet()
        await master.lead(1)
        async with raw_replica(master) as replica:
            with pytest.raises(ConnectionError):
                await replica.greet(1)


async def test_a_second_connection_of_a_replica_replaces_the_first(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(1)
        async with raw_replica(master) as old, raw_replica(master) as new:
            await old.greet()
            old.report(0)
            await new.greet()
            new.report(0)
            assert await old.is_closed()
            await until(lambda: len(master.server.status()) == 1)


async def test_a_silent_replica_gets_heartbeats_and_is_closed_after_the_housekeeping_interval(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(Node(tmp_path, 1, clock=clock)) as master:
        await master.lead(7)
        async with raw_replica(master) as replica:
            await replica.greet()
            replica.report(0)
            await until(lambda: master.server.status() and master.server.status()[0].transfer_from_where == 0)
            await clock.advance(6)
            heartbeat = await replica.frame()
            assert heartbeat == (0, EpochEntry(7, 0), 0, b"")
            await clock.advance(20)
            assert await replica.is_closed()


async def test_an_epoch_that_is_not_newer_is_refused(tmp_path: Path) -> None:
    """RocketMQ ignores the refusal, and the broker becomes master without an epoch."""
    async with running(Node(tmp_path, 1)) as master:
        await master.lead(5)
        await fill(master.store, 5)
        for epoch in (4, 5):
            with pytest.raises(StaleEpoch, match=f"epoch {epoch} is not newer"):
                await master.lead(epoch)
        assert master.copies.refusal() is not None
