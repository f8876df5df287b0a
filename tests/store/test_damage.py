"""Truncated files and flipped bits: only what was written is served, and a check finds the damage."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.message.errors import RecordError
from kerolox.message.records.record import decode
from kerolox.message.records.summary import peek
from kerolox.store.check.check import check
from kerolox.store.errors import StoreError
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.crash.proofs import record_proof
from tests.store.disks import Directory, Inode, SimulatedDisk
from tests.store.oracle import verified
from tests.store.stores import LOG, batch, config, draft, opened, put, run, without_threads

pytestmark = [pytest.mark.usefixtures("threadless"), pytest.mark.timeout(0)]

# Number of random damages; KEROLOX_DAMAGES for more.
DAMAGES = int(os.environ.get("KEROLOX_DAMAGES", "300"))
# Number of last records that are truncated at every byte, and flipped in one bit or all bits of it.
LAST = 4 if DAMAGES > 300 else 2
# Positions of queue id and queue offset in a record.
QUEUE_ID, QUEUE_OFFSET = range(12, 16), range(20, 28)

MessageKey = tuple[str, int, int]


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def image(*, is_clean: bool, is_flushed: bool = False) -> tuple[SimulatedDisk, dict[MessageKey, bytes]]:
    """Return a disk with several files of each kind, and the written messages in log order."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(12):
        put(store, draft(b"first %d " % number * 40, "orders", number % 2, KEYS=f"k{number} all", TAGS="red"))
    put(store, draft(b"other", "t"), batch([b"a", b"bb" * 30], "orders", 1), draft(b"last", UNIQ_KEY="u" * 32))
    if is_flushed:
        run(store.flush_behind.flush())
    if is_clean:
        run(store.close())
    written = served(opened(disk.after_kill()))
    assert len(written) == 16
    return disk.after_kill(), dict(sorted(written.items(), key=lambda item: offset_of(item[1])))


def served(store: Store) -> dict[MessageKey, bytes]:
    """Return what consumers get, without checking it."""
    found: dict[MessageKey, bytes] = {}
    for (topic, queue_id), queue in store.queues.items():
        for offset in range(queue.min_offset, queue.max_offset):
            got = store.reader.get(topic, queue_id, offset, count_max=1)
            if got.status is GetStatus.FOUND and got.next_offset == offset + 1:
                found[topic, queue_id, offset] = got.records[0]
    return found


def offset_of(data: bytes) -> int:
    return int.from_bytes(data[28:36])


def log_file(offset: int) -> tuple[Path, int]:
    return LOG / f"{offset - offset % 4096:020d}", offset % 4096


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_truncating_the_log_in_its_last_records_keeps_all_records_before(is_clean: bool) -> None:
    disk, written = image(is_clean=is_clean)
    lasts = list(written.values())[-LAST:]
    end = offset_of(lasts[-1]) + len(lasts[-1])
    cuts = range(offset_of(lasts[0]), end)
    for cut in cuts:
        left = disk.after_kill()
        path, at = log_file(cut)
        left.overwrite(path, at, bytes(4096 - at))
        # Truncation writes zeros, so a record that ends with zeros may be intact.
        kept = {
            key: data
            for key, data in written.items()
            if not any(data[max(0, cut - offset_of(data)) :]) or offset_of(data) + len(data) <= cut
        }

        store = opened(left)
        assert served(store) == kept, cut
        run(store.close())

        assert verified(left, store.config).records == len(kept), cut
    record_proof("cut", runs=len(cuts), promised=len(written))


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_flipped_bit_in_the_last_records_costs_no_other_record(is_clean: bool) -> None:
    """Except that a record with a flipped queue position may replace another that had no entry yet."""
    disk, written = image(is_clean=is_clean)
    runs = 0
    for key, data in list(written.items())[-LAST:]:
        for at in range(len(data)):
            for mask in masks(at):
                left = disk.after_kill()
                flip(left, offset_of(data) + at, mask)
                store = opened(left)
                found = served(store)
                costs = [other for other in written if other != key and found.get(other) != written[other]]
                is_place = at in QUEUE_ID or at in QUEUE_OFFSET
                assert len(costs) <= (is_place and not is_clean), (key, at, mask, costs)
                if key in found and found[key] != data:
                    # As in Java, no checksum covers the header and properties of a record.
                    assert body_of(found[key]) == body_of(data), (key, at, mask)
                run(store.close())
                runs += 1
    record_proof("flip", runs=runs, promised=len(written))


def test_a_check_finds_every_flipped_bit_that_costs_a_message() -> None:
    """The images are flushed first: records without entries cannot be compared with anything."""
    chance = random.Random(DAMAGES)
    images = [image(is_clean=is_clean, is_flushed=True) for is_clean in (True, False)]
    refused = seen = 0
    for _ in range(DAMAGES):
        disk, written = chance.choice(images)
        left = disk.after_kill()
        path, inode = chance.choice(list(files(left.root, Path("/"))))
        at = chance.randrange(len(inode.content))
        left.overwrite(path, at, bytes((inode.content[at] ^ 1 << chance.randrange(8),)))
        has_complaints = is_damaged(left)
        seen += has_complaints
        try:
            found = served(opened(left))
        except StoreError:
            refused += 1
            assert has_complaints, (path, at)
            continue
        if not has_complaints:
            for key, data in written.items():
                assert body_of(found[key]) == body_of(data), (path, at)
    assert 0 < seen < DAMAGES
    record_proof("random flip", runs=DAMAGES, promised=len(images[0][1]), refused=refused, seen=seen)


def masks(at: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(8)) if DAMAGES > 300 else (1 << at % 8,)


def is_damaged(disk: SimulatedDisk) -> bool:
    """Whether the check reports damage; in a killed store a torn end of the log is only a note."""
    try:
        report = check(config(), disk=disk)
        return not report.is_whole or any(note.startswith("log: ends") for note in report.notes)
    except StoreError:
        return True


def flip(disk: SimulatedDisk, offset: int, mask: int) -> None:
    path, at = log_file(offset)
    disk.overwrite(path, at, bytes((disk.content(path)[at] ^ mask,)))


def body_of(data: bytes) -> bytes | None:
    try:
        peek(data, check_crc=True)
        return decode(data).body
    except RecordError:
        return None


def files(directory: Directory, path: Path) -> Iterator[tuple[Path, Inode]]:
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            yield from files(node, path / name)
        elif node.content:
            yield path / name, node
