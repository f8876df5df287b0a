"""Epochs of a log: the entries, their file, and how far two logs agree."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kerolox.replication.auto_switch.epochs import FILE_NAME, Agreement, EpochEntry, EpochFile, Epochs, agreement
from kerolox.runtime.files import RealDisk
from kerolox.store.errors import StoreDamaged
from tests.store.disks import SimulatedDisk, Stopped

E = EpochEntry


def epochs(*entries: tuple[int, int]) -> Epochs:
    return Epochs(E(*entry) for entry in entries)


def test_an_epoch_that_follows_one_without_records_replaces_its_entry() -> None:
    assert epochs((1, 0), (2, 500)).with_entry(3, 500) == epochs((1, 0), (3, 500))
    assert epochs((1, 0)).with_entry(2, 500) == epochs((1, 0), (2, 500))


def test_an_older_epoch_is_refused_and_the_last_entry_may_be_repeated() -> None:
    known = epochs((1, 0), (4, 500))
    assert known.with_entry(4, 500) is known
    for epoch, start_offset in ((4, 600), (3, 600), (4, 400)):
        with pytest.raises(ValueError, match="not newer"):
            known.with_entry(epoch, start_offset)


def test_an_entry_that_begins_before_the_last_one_is_refused() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        epochs((1, 0), (2, 500)).with_entry(3, 400)


def test_entries_beyond_the_end_of_the_log_are_dropped() -> None:
    known = epochs((1, 0), (2, 500), (3, 900))
    assert known.until(900) == known
    assert known.until(899) == epochs((1, 0), (2, 500))
    assert known.until(0) == epochs((1, 0))


def test_entries_of_deleted_files_are_dropped() -> None:
    known = epochs((1, 0), (2, 500), (3, 900))
    assert known.since(0) == known
    assert known.since(499) == known
    assert known.since(500) == epochs((2, 500), (3, 900))
    assert known.since(5_000) == epochs((3, 900))


def test_the_entry_of_an_offset_covers_it() -> None:
    known = epochs((1, 100), (2, 500))
    assert [known.at(offset) for offset in (99, 100, 499, 500, 10**12)] == [
        None,
        E(1, 100),
        E(1, 100),
        E(2, 500),
        E(2, 500),
    ]
    assert known.end_of(E(1, 100), 700) == 500
    assert known.end_of(E(2, 500), 700) == 700


@pytest.mark.parametrize(
    ("own", "own_end", "master", "master_end", "expected"),
    [
        pytest.param(epochs((1, 0)), 300, epochs((1, 0)), 500, Agreement(300, epochs((1, 0))), id="behind"),
        pytest.param(epochs((1, 0)), 700, epochs((1, 0), (2, 500)), 900, Agreement(500, epochs((1, 0))), id="diverged"),
        pytest.param(
            epochs((1, 0), (2, 500)), 500, epochs((1, 0), (3, 500)), 900, Agreement(500, epochs((1, 0))), id="no record"
        ),
        pytest.param(
            epochs((1, 0), (2, 400)), 800, epochs((1, 0), (3, 500)), 900, Agreement(400, epochs((1, 0))), id="fork"
        ),
        pytest.param(epochs(), 0, epochs((1, 0)), 900, Agreement(0, epochs()), id="empty"),
        pytest.param(epochs(), 10, epochs((1, 0)), 900, None, id="log without epochs"),
        pytest.param(epochs((1, 0)), 10, epochs((2, 0)), 900, None, id="nothing in common"),
        pytest.param(epochs((1, 0)), 10, epochs((1, 1)), 900, None, id="another start"),
    ],
)
def test_two_logs_agree_up_to_the_end_of_the_last_common_entry(
    own: Epochs, own_end: int, master: Epochs, master_end: int, expected: Agreement | None
) -> None:
    assert agreement(own, own_end, master, master_end) == expected


@dataclass
class Replica:
    """A log whose bytes are numbers, each written once in the whole history."""

    log: list[int] = field(default_factory=list)
    epochs: Epochs = field(default_factory=Epochs)


def first_entry_wins(known: Epochs, epoch: int, start_offset: int) -> Epochs:
    """RocketMQ's rule: an entry with the start of the last one is not recorded."""
    if known.entries and known.entries[-1].start_offset == start_offset:
        return known
    return known.with_entry(epoch, start_offset)


def diverges(seed: int, add: Callable[[Epochs, int, int], Epochs]) -> bool:
    """Elect random masters, which write and copy; whether two logs ever agree that are not equal there."""
    rng = random.Random(seed)
    replicas = [Replica() for _ in range(3)]
    written = 0
    for epoch in range(1, 12):
        master = rng.choice(replicas)
        master.epochs = add(master.epochs, epoch, len(master.log))
        count = rng.choice((0, 0, 1, 3))
        master.log += range(written, written + count)
        written += count
        for replica in rng.sample(replicas, 2):
            if replica is master:
                continue
            agreed = agreement(replica.epochs, len(replica.log), master.epochs, len(master.log))
            if agreed is None:
                continue
            if replica.log[: agreed.offset] != master.log[: agreed.offset]:
                return True
            # The copy may stop at any byte; the replica learns epochs with the bytes that it gets, or by a heartbeat.
            end = rng.randint(agreed.offset, len(master.log))
            replica.log = master.log[:end]
            learnt = [entry for entry in master.epochs.entries if entry.start_offset <= end]
            replica.epochs = Epochs(sorted({*agreed.epochs.entries, *learnt}))
    return False


def test_logs_that_agree_are_equal_whoever_was_elected() -> None:
    assert not any(diverges(seed, Epochs.with_entry) for seed in range(3_000))


def test_the_search_for_divergence_finds_the_rule_of_rocketmq() -> None:
    assert any(diverges(seed, first_entry_wins) for seed in range(3_000))


# The file


def test_the_file_has_the_format_of_rocketmq(tmp_path: Path) -> None:
    file = EpochFile(RealDisk(), tmp_path / FILE_NAME)
    file.save(epochs((1, 0), (7, 123456)))
    count, checksum, *lines = (tmp_path / FILE_NAME).read_text().splitlines()
    assert (count, lines) == ("2", ["1-0", "7-123456"])
    # CRC-32 of the entry lines, computed with another implementation, without its highest bit.
    assert checksum == str(3513340807 & 0x7FFFFFFF)
    assert file.load() == epochs((1, 0), (7, 123456))


@pytest.mark.parametrize(
    "content", [b"1\n0\n3-10\n", b"1\r\n0\r\n3-10\r\n", b"2\n0\n2-10\n3-10\n"], ids=["plain", "windows", "same start"]
)
def test_files_of_rocketmq_without_a_checksum_are_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert EpochFile(RealDisk(), tmp_path / FILE_NAME).load() == epochs((3, 10))


@pytest.mark.parametrize(
    "content",
    [
        b"1\n5\n3-10\n",
        b"2\n0\n3-10\n",
        b"x\n0\n",
        b"1\n0\n3:10\n",
        b"1\n0\n-3-10\n",
        b"2\n0\n3-10\n2-20\n",
        b"\xff\n0\n",
    ],
)
def test_a_damaged_file_is_replaced_by_its_backup_or_reported(tmp_path: Path, content: bytes) -> None:
    file = EpochFile(RealDisk(), tmp_path / FILE_NAME)
    file.save(epochs((1, 0)))
    file.save(epochs((1, 0), (2, 10)))
    (tmp_path / FILE_NAME).write_bytes(content)
    assert file.load() == epochs((1, 0))
    (tmp_path / f"{FILE_NAME}.bak").write_bytes(content)
    with pytest.raises(StoreDamaged, match="and its backup cannot be read"):
        file.load()


def test_a_store_without_the_file_has_no_epochs(tmp_path: Path) -> None:
    assert EpochFile(RealDisk(), tmp_path / FILE_NAME).load() == epochs()


def test_a_power_cut_leaves_the_old_entries_or_the_new_ones() -> None:
    number = 0
    while True:
        disk = SimulatedDisk()
        disk.make_directory(Path("/store"))
        disk.sync(Path("/"))
        file = EpochFile(disk, Path("/store") / FILE_NAME)
        file.save(epochs((1, 0)))
        disk.stop_after = disk.operations + number
        is_saved = False
        try:
            file.save(epochs((1, 0), (2, 10)))
            is_saved = True
        except Stopped:
            pass
        for left in disk.after_power_cut(seed=number, count=5):
            found = EpochFile(left, Path("/store") / FILE_NAME).load()
            assert found == epochs((1, 0), (2, 10)) if is_saved else found in (epochs((1, 0)), epochs((1, 0), (2, 10)))
        if is_saved:
            assert number > 4
            return
        number += 1
