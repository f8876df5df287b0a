"""Nothing is committed that rests on what a power cut could take back."""

from pathlib import Path

import pytest

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.progress import Progress
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk


class Log:
    durable_offset = 0


def made(tmp_path: Path) -> tuple[Progress, ConsumerOffsets, Log]:
    log = Log()
    offsets = ConsumerOffsets(BrokerConfig(), RealDisk(), tmp_path, ManualClock())
    return Progress(offsets, lambda: log.durable_offset), offsets, log


def test_an_offset_is_committed_when_its_checkpoint_is_durable(tmp_path: Path) -> None:
    progress, offsets, log = made(tmp_path)

    progress.advance("g", "t", 0, 5, 1000)
    progress.advance("g", "t", 0, 9, 2000)
    assert (progress.get("g", "t", 0), offsets.get("g", "t", 0)) == (9, None)
    log.durable_offset = 1500
    progress.settle()
    assert (progress.get("g", "t", 0), offsets.get("g", "t", 0)) == (9, 5)
    log.durable_offset = 2000
    progress.settle()

    assert (progress.get("g", "t", 0), offsets.get("g", "t", 0), len(progress)) == (9, 9, 0)


def test_a_group_that_is_set_elsewhere_stays_there(tmp_path: Path) -> None:
    progress, offsets, log = made(tmp_path)
    progress.advance("g", "t", 0, 5, 1000)

    progress.set("g", "t", 0, 2)
    log.durable_offset = 1000
    progress.settle()

    assert (progress.get("g", "t", 0), offsets.get("g", "t", 0)) == (2, 2)


def test_who_went_back_in_the_table_is_not_ahead(tmp_path: Path) -> None:
    progress, offsets, log = made(tmp_path)
    log.durable_offset = 1000
    progress.advance("g", "t", 0, 5, 1000)

    offsets.commit("g", "t", 0, 1)

    assert progress.get("g", "t", 0) == 1
    assert progress.get("other", "t", 0) is None


def test_a_full_table_keeps_nobody_else_from_being_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress, offsets, log = made(tmp_path)
    offsets.commit("g", "t", 0, 1)
    offsets.commit("late", "t", 0, 1)
    progress.advance("late", "t", 0, 5, 1000)
    progress.advance("g", "t", 0, 9, 1000)
    offsets.delete_group("late")
    monkeypatch.setattr("kerolox.broker.offsets._OFFSETS_MAX", 1)
    log.durable_offset = 1000

    progress.settle()

    assert (progress.get("late", "t", 0), progress.get("g", "t", 0)) == (None, 9)
    assert (offsets.table, len(progress)) == ({"t@g": {0: 9}}, 0)
