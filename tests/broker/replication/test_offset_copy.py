"""Consumer offsets of a master on its slave."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.replication.offset_copy import OffsetCopy
from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.wire.bodies.topics import DataVersion


@pytest.fixture
def mine(tmp_path: Path) -> ConsumerOffsets:
    return offsets_in(tmp_path)


def offsets_in(directory: Path) -> ConsumerOffsets:
    offsets = ConsumerOffsets(BrokerConfig(), RealDisk(), directory, ManualClock())
    offsets.load()
    return offsets


def version(counter: int) -> DataVersion:
    return DataVersion(counter, 0, 1_700_000_000_000 + counter)


def test_offsets_of_the_master_are_taken_over_with_its_version(mine: ConsumerOffsets) -> None:
    copy = OffsetCopy(mine)

    copy.apply({"t@g": {0: 5, 1: 6}}, version(10), is_full=True, pop_position=77)
    copy.apply({"t@g": {1: 4}, "u@g": {0: 1}}, version(12), is_full=False, pop_position=99)

    assert mine.table == {"t@g": {0: 5, 1: 4}, "u@g": {0: 1}}
    assert (mine.data_version, mine.pop_position, copy.version) == (version(12), 99, version(12))


def test_keys_that_the_master_has_deleted_are_deleted(mine: ConsumerOffsets) -> None:
    copy = OffsetCopy(mine)
    mine.commit("own", "t", 0, 3)

    copy.apply({"t@g": {0: 5}, "t@h": {0: 6}}, version(10), is_full=True)
    copy.apply({"t@g": {0: 5}}, version(11), is_full=True)

    assert mine.table == {"t@own": {0: 3}, "t@g": {0: 5}}


def test_a_commit_to_the_slave_stays_until_the_master_changes_that_offset(mine: ConsumerOffsets) -> None:
    copy = OffsetCopy(mine)
    copy.apply({"t@g": {0: 5, 1: 5}}, version(10), is_full=True)
    mine.commit("g", "t", 0, 50)

    # The master comes back with what it had, and a consumer of another queue commits.
    copy.apply({"t@g": {0: 5, 1: 8}}, version(11), is_full=True)
    assert mine.table == {"t@g": {0: 50, 1: 8}}

    copy.apply({"t@g": {0: 60}}, version(12), is_full=False)
    assert mine.table["t@g"][0] == 60


def test_a_reset_on_the_master_reaches_the_slave(mine: ConsumerOffsets) -> None:
    copy = OffsetCopy(mine)
    copy.apply({"t@g": {0: 500}}, version(10), is_full=True)
    mine.commit("g", "t", 0, 550)

    copy.apply({"t@g": {0: 20}}, version(11), is_full=False)

    assert mine.table["t@g"][0] == 20


def test_a_master_that_has_lost_its_last_commits_sets_nothing_back(mine: ConsumerOffsets) -> None:
    copy = OffsetCopy(mine)
    copy.apply({"t@g": {0: 500, 1: 9}}, version(100), is_full=True)

    copy.apply({"t@g": {0: 480, 1: 10}}, version(90), is_full=True)
    assert mine.table["t@g"] == {0: 500, 1: 10}

    copy.apply({"t@g": {0: 481}}, version(91), is_full=False)
    assert mine.table["t@g"] == {0: 481, 1: 10}


async def test_after_a_restart_the_saved_version_tells_whether_the_master_is_older(tmp_path: Path) -> None:
    mine = offsets_in(tmp_path)
    OffsetCopy(mine).apply({"t@g": {0: 500}}, version(100), is_full=True)
    await mine.file.save()

    restarted = offsets_in(tmp_path)
    OffsetCopy(restarted).apply({"t@g": {0: 480}}, version(90), is_full=True)
    assert restarted.table["t@g"] == {0: 500}

    restarted = offsets_in(tmp_path)
    OffsetCopy(restarted).apply({"t@g": {0: 480}}, version(101), is_full=True)
    assert restarted.table["t@g"] == {0: 480}


def test_a_4x_master_without_versions_overwrites_as_in_java(mine: ConsumerOffsets) -> None:
    mine.commit("g", "t", 0, 500)

    OffsetCopy(mine).apply({"t@g": {0: 480}}, DataVersion(), is_full=True)

    assert mine.table["t@g"] == {0: 480}


def test_changes_since_a_version_are_found(mine: ConsumerOffsets) -> None:
    mine.commit("g", "t", 0, 1)
    mine.commit("h", "t", 0, 1)
    seen = DataVersion(mine.data_version.counter, 0, mine.data_version.timestamp)
    mine.commit("g", "t", 1, 2)

    assert mine.changes_since(seen, count_max=10) == {"t@g": {0: 1, 1: 2}}
    assert mine.changes_since(mine.data_version, count_max=10) == {}
    assert mine.changes_since(DataVersion(0, 0, 0), count_max=3) == mine.table
    assert mine.changes_since(DataVersion(0, 0, 0), count_max=2) is None
    assert mine.changes_since(DataVersion(99, 0, 0), count_max=10) is None
    mine.delete_group("g")
    assert mine.changes_since(seen, count_max=10) is None
    assert mine.changes_since(mine.data_version, count_max=10) == {}
