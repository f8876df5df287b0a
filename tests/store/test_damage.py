"""Files that were cut and bits that were flipped: what is served is what was written, and the check sees the rest."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.message.errors import RecordError
from kerolox.message.peek import peek
from kerolox.message.record import decode
from kerolox.store.checking.check import check
from kerolox.store.errors import StoreError
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.crash.proofs import noted
from tests.store.disks import Directory, Inode, SimulatedDisk
from tests.store.oracle import verified
from tests.store.stores import LOG, batch, config, draft, opened, put, run, without_threads

pytestmark = [pytest.mark.usefixtures("threadless"), pytest.mark.timeout(0)]

# How many random places are damaged; KEROLOX_DAMAGES for more.
DAMAGES = int(os.environ.get("KEROLOX_DAMAGES", "300"))
# The last records, every byte of which is cut off, and flipped in one bit or in each.
LAST = 4 if DAMAGES > 300 else 2
# Where a record says in which queue it is, and where in it.
QUEUE_ID, QUEUE_OFFSET = range(12, 16), range(20, 28)

Place = tuple[str, int, int]


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def image(*, is_clean: bool, is_flushed: bool = False) -> tuple[SimulatedDisk, dict[Place, bytes]]:
    """A disk with some files of everything, and what was written, in the order of the log."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(12):
        put(store, draft(b"first %d " % number * 40, "orders", number % 2, KEYS=f"k{number} all", TAGS="red"))
    put(store, draft(b"other", "t"), batch([b"a", b"bb" * 30], "orders", 1), draft(b"last", UNIQ_KEY="u" * 32))
    if is_flushed:
        run(store.behind.flush())
    if is_clean:
        run(store.close())
    written = served(opened(disk.after_kill()))
    assert len(written) == 16
    return disk.after_kill(), dict(sorted(written.items(), key=lambda item: offset_of(item[1])))


def served(store: Store) -> dict[Place, bytes]:
    """What consumers are given, whatever it says of itself."""
    found: dict[Place, bytes] = {}
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
def test_a_log_that_is_cut_at_any_byte_of_its_last_records_keeps_those_before(is_clean: bool) -> None:
    disk, written = image(is_clean=is_clean)
    lasts = list(written.values())[-LAST:]
    end = offset_of(lasts[-1]) + len(lasts[-1])
    cuts = range(offset_of(lasts[0]), end)
    for cut in cuts:
        left = disk.after_kill()
        path, at = log_file(cut)
        left.overwrite(path, at, bytes(4096 - at))
        # Zeros at the end of a record are there whether it is cut or not.
        kept = {
            place: data
            for place, data in written.items()
            if not any(data[max(0, cut - offset_of(data)) :]) or offset_of(data) + len(data) <= cut
        }

        store = opened(left)
        assert served(store) == kept, cut
        run(store.close())

        assert verified(left, store.config).records == len(kept), cut
    noted("cut", runs=len(cuts), promised=len(written))


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_bit_that_flips_in_the_last_records_costs_no_other_record(is_clean: bool) -> None:
    """But one that says that it has the place of another may take it, if it had not yet got its own."""
    disk, written = image(is_clean=is_clean)
    runs = 0
    for place, data in list(written.items())[-LAST:]:
        for at in range(len(data)):
            for mask in masks(at):
                left = disk.after_kill()
                flip(left, offset_of(data) + at, mask)
                store = opened(left)
                found = served(store)
                costs = [other for other in written if other != place and found.get(other) != written[other]]
                is_place = at in QUEUE_ID or at in QUEUE_OFFSET
                assert len(costs) <= (is_place and not is_clean), (place, at, mask, costs)
                if place in found and found[place] != data:
                    # Nothing guards the head and the properties of a record, as in the original.
                    assert body_of(found[place]) == body_of(data), (place, at, mask)
                run(store.close())
                runs += 1
    noted("flip", runs=runs, promised=len(written))


def test_whatever_a_flipped_bit_costs_is_seen_by_the_check() -> None:
    """What a killed process had not yet entered in a queue or the index it cannot compare with anything."""
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
            for place, data in written.items():
                assert body_of(found[place]) == body_of(data), (path, at)
    assert 0 < seen < DAMAGES
    noted("random flip", runs=DAMAGES, promised=len(images[0][1]), refused=refused, seen=seen)


def masks(at: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(8)) if DAMAGES > 300 else (1 << at % 8,)


def is_damaged(disk: SimulatedDisk) -> bool:
    """Whether the check has something to say. In a store that was killed the end of the log may well be torn."""
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
        assert peek(data, check_crc=True)
        return decode(data).body
    except RecordError:
        return None


def files(directory: Directory, path: Path) -> Iterator[tuple[Path, Inode]]:
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            yield from files(node, path / name)
        elif node.content:
            yield path / name, node
