"""Pop offsets are committed only when their checkpoints are durable."""

from math import inf
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.pop_offsets import PopOffsets
from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.runtime.service import Supervisor
from tests.remoting.support import until


class FakeLog:
    durable_offset = 0


def create(tmp_path: Path) -> tuple[PopOffsets, ConsumerOffsets, FakeLog]:
    log = FakeLog()
    offsets = ConsumerOffsets(BrokerConfig(), RealDisk(), tmp_path, ManualClock())
    return PopOffsets(offsets, lambda: log.durable_offset), offsets, log


def test_an_offset_is_committed_when_its_checkpoint_is_durable(tmp_path: Path) -> None:
    pop_offsets, offsets, log = create(tmp_path)

    pop_offsets.advance("g", "t", 0, 5, 1000)
    pop_offsets.advance("g", "t", 0, 9, 2000)
    assert (pop_offsets.get("g", "t", 0), offsets.get("g", "t", 0)) == (9, None)
    log.durable_offset = 1500
    pop_offsets.settle()
    assert (pop_offsets.get("g", "t", 0), offsets.get("g", "t", 0)) == (9, 5)
    log.durable_offset = 2000
    pop_offsets.settle()

    assert (pop_offsets.get("g", "t", 0), offsets.get("g", "t", 0), len(pop_offsets)) == (9, 9, 0)


def test_an_offset_that_is_set_is_not_overwritten_by_an_earlier_pop(tmp_path: Path) -> None:
    pop_offsets, offsets, log = create(tmp_path)
    pop_offsets.advance("g", "t", 0, 5, 1000)

    pop_offsets.set("g", "t", 0, 2)
    log.durable_offset = 1000
    pop_offsets.settle()

    assert (pop_offsets.get("g", "t", 0), offsets.get("g", "t", 0)) == (2, 2)


def test_a_lower_committed_offset_replaces_a_settled_pop_offset(tmp_path: Path) -> None:
    pop_offsets, offsets, log = create(tmp_path)
    log.durable_offset = 1000
    pop_offsets.advance("g", "t", 0, 5, 1000)

    offsets.commit("g", "t", 0, 1)

    assert pop_offsets.get("g", "t", 0) == 1
    assert pop_offsets.get("other", "t", 0) is None


def test_a_full_table_does_not_prevent_commits_of_existing_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pop_offsets, offsets, log = create(tmp_path)
    offsets.commit("g", "t", 0, 1)
    offsets.commit("late", "t", 0, 1)
    pop_offsets.advance("late", "t", 0, 5, 1000)
    pop_offsets.advance("g", "t", 0, 9, 1000)
    offsets.delete_group("late")
    monkeypatch.setattr("kerolox.broker.tables.offsets._OFFSETS_MAX", 1)
    log.durable_offset = 1000

    pop_offsets.settle()

    assert (pop_offsets.get("late", "t", 0), pop_offsets.get("g", "t", 0)) == (None, 9)
    assert (offsets.table, len(pop_offsets)) == ({"t@g": {0: 9}}, 0)


def test_the_saved_position_is_before_every_uncommitted_checkpoint(tmp_path: Path) -> None:
    pop_offsets, _, log = create(tmp_path)
    assert pop_offsets.saved_position() == inf
    pop_offsets.advance("g", "t", 0, 5, 1000, 900)
    pop_offsets.advance("g", "t", 1, 5, 1200, 1100)
    pop_offsets.advance("g", "t", 2, 9, 1200)
    assert pop_offsets.saved_position() == 900
    log.durable_offset = 1000
    pop_offsets.settle()
    assert pop_offsets.saved_position() == 1100

    pop_offsets.set("g", "t", 1, 0)

    assert pop_offsets.saved_position() == inf


async def test_offsets_are_saved_early_after_many_pops(tmp_path: Path) -> None:
    clock = ManualClock()
    log = FakeLog()
    log.durable_offset = 10
    offsets = ConsumerOffsets(BrokerConfig(), RealDisk(), tmp_path, clock)
    pop_offsets = PopOffsets(offsets, lambda: log.durable_offset, unsaved_max=3)
    file = tmp_path / "consumerOffset.json"
    async with Supervisor(offsets.file):
        for offset in (1, 2):
            pop_offsets.advance("g", "t", 0, offset, 10)
        await clock.advance(4)
        assert not file.exists()

        pop_offsets.advance("g", "t", 0, 3, 10)
        await clock.advance(0.5)
        await until(file.exists)


def test_offsets_of_a_deleted_topic_or_group_are_removed(tmp_path: Path) -> None:
    pop_offsets, offsets, log = create(tmp_path)
    for group, topic in (("g", "gone"), ("gone", "t"), ("g", "t")):
        offsets.commit(group, topic, 0, 0)
        pop_offsets.recover(group, topic, 0, [(1, 3)], 0)
        pop_offsets.advance(group, topic, 0, 1, 1000)

    pop_offsets.delete_topic("gone")
    pop_offsets.delete_group("gone")
    offsets.delete_topic("gone")
    offsets.delete_group("gone")
    log.durable_offset = 1000
    pop_offsets.settle()

    assert offsets.table == {"t@g": {0: 1}}
    assert pop_offsets.pass_recovered("g", "gone", 0, 1) == (1, None)
    assert pop_offsets.pass_recovered("gone", "t", 0, 1) == (1, None)
    assert pop_offsets.pass_recovered("g", "t", 0, 1) == (3, None)


def test_recovered_ranges_are_skipped_and_the_gaps_between_them_are_popped(tmp_path: Path) -> None:
    pop_offsets, offsets, _ = create(tmp_path)
    offsets.commit("g", "t", 0, 2)

    pop_offsets.recover("g", "t", 0, [(9, 11), (1, 3), (6, 8), (3, 4), (8, 9)], 0)

    assert offsets.get("g", "t", 0) == 4
    assert pop_offsets.pass_recovered("g", "t", 0, 4) == (4, 6)
    assert pop_offsets.pass_recovered("g", "t", 0, 5) == (5, 6)
    assert pop_offsets.pass_recovered("g", "t", 0, 6) == (11, None)
    assert not pop_offsets.has_recovered
