"""A check finds damage in a store and changes nothing."""

import hashlib
import random
import re
import struct
import tracemalloc
from pathlib import Path

import pytest

from kerolox.message.message import Message
from kerolox.message.records.record import encode
from kerolox.message.sysflag import INNER_BATCH
from kerolox.message.tags import key_hash
from kerolox.runtime.service import Supervisor
from kerolox.store.check.check import check
from kerolox.store.check.report import COMPLAINTS_MAX, Report
from kerolox.store.config import StoreConfig
from kerolox.store.index.layout import ENTRY, HEADER, IndexShape
from kerolox.store.log.commit_log import Append
from kerolox.store.queue.consume_queue import ENTRY_SIZE
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, config, draft, opened, put

COUNT = 100
SHAPE = IndexShape(16, 64)


def configuration(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=10 * ENTRY_SIZE,
        max_hash_slot_num=SHAPE.slots,
        max_index_num=SHAPE.entries,
    )


async def make_store(root: Path) -> None:
    """Create a cleanly stopped store with a hundred messages in two queues and several files."""
    store = Store(configuration(root))
    async with Supervisor(store):
        for number in range(COUNT):
            properties = b"UNIQ_KEY\x01u%d\x02" % number
            message = Message("orders", b"body %d" % number, properties, number % 2)
            await store.put(Append("orders", number % 2, encode(message)))


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_store(tmp_path / "store")
    return tmp_path / "store"


def content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def overwrite(path: Path, offset: int, data: bytes) -> None:
    old = path.read_bytes()
    path.write_bytes(old[:offset] + data + old[offset + len(data) :])


def queue_file(root: Path, queue_id: int, start: int = 0) -> Path:
    return root / "consumequeue" / "orders" / str(queue_id) / f"{start:020d}"


def index_file(root: Path) -> Path:
    return min((root / "index").iterdir())


def complaints(root: Path) -> list[str]:
    report = check(configuration(root))
    assert report.is_whole == (not report.complaints)
    return report.complaints


def test_an_intact_store_has_no_complaints_and_is_not_changed(root: Path) -> None:
    before = content(root)
    seen: list[tuple[int, int]] = []

    report = check(configuration(root), lambda done, total: seen.append((done, total)))

    assert (report.complaints, report.notes, report.is_clean) == ([], [], True)
    assert (report.records, report.queues, report.entries) == (COUNT, 2, COUNT)
    assert (report.index_files, report.index_entries) == (2, COUNT)
    assert content(root) == before
    assert len(seen) >= COUNT
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    assert len({total for _, total in seen}) == 1


def test_a_read_only_directory_can_be_checked(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)

    assert complaints(root) == []

    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_flipped_bit_is_reported(root: Path) -> None:
    first = min((root / "commitlog").iterdir())
    data = bytearray(first.read_bytes())
    data[data.index(b"body 3")] ^= 1
    first.write_bytes(data)

    found = complaints(root)

    assert any(complaint.startswith("log: no record from") for complaint in found)
    assert any("but there is no such record" in complaint for complaint in found)
    assert any("but no record begins there" in complaint for complaint in found)


def test_an_entry_that_points_to_another_record_is_reported(root: Path) -> None:
    path = queue_file(root, 1)
    overwrite(path, 0, path.read_bytes()[ENTRY_SIZE : 2 * ENTRY_SIZE])

    found = complaints(root)

    assert any("orders/1: entry 0 points to" in complaint for complaint in found)
    assert any("orders/1: 1 records have no entry" in complaint for complaint in found)


@pytest.mark.parametrize(("at", "what"), [(8, "has a size of"), (12, "has tags code")], ids=["size", "tags"])
def test_an_entry_with_a_wrong_size_or_tags_code_is_reported(root: Path, at: int, what: str) -> None:
    path = queue_file(root, 0)
    overwrite(path, 3 * ENTRY_SIZE + at, b"\0\0\0\x07")

    (found,) = complaints(root)

    assert found.startswith(f"queue orders/0: entry 3 {what}")


def test_missing_queue_entries_are_reported(root: Path) -> None:
    overwrite(queue_file(root, 0, 800), 8 * ENTRY_SIZE, bytes(2 * ENTRY_SIZE))

    assert complaints(root) == [next(text for text in complaints(root) if "orders/0: 2 records have no entry" in text)]


def test_a_missing_queue_is_reported(root: Path) -> None:
    for path in queue_file(root, 0).parent.iterdir():
        path.unlink()
    queue_file(root, 0).parent.rmdir()

    (found,) = complaints(root)

    assert "orders/0: 50 records have no entry, the first is at 0 (orders/0/0)" in found


def test_inner_batches_are_noted_with_their_topic() -> None:
    """A store taken over from Java 5.x may have them; they are not served here."""
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft(b"plain", "orders"), draft(b"batch", "packed", sys_flag=INNER_BATCH), draft(b"batch", "removed"))
    disk.make_directory(ROOT / "batchconsumequeue" / "removed" / "0")

    report = check(config(), disk=disk)

    batches = [note for note in report.notes if "BatchCQ" in note]
    assert [note.partition(" records are inner batches")[0] for note in batches] == [
        "topic packed: 1",
        "topic removed: 0",
    ]
    assert all("not supported here; consume them where they were written" in note for note in batches)


def test_a_queue_type_that_contradicts_the_queues_is_reported(root: Path) -> None:
    (root / "config").mkdir()
    batch = '{"attributes":{"queue.type":"BatchCQ"}}'
    simple = '{"attributes":{"queue.type":"SimpleCQ"}}'
    topics = f'"orders":{batch},"empty":{batch},"packed":{batch},"plain":{simple},"old":{{}}'
    (root / "config" / "topics.json").write_text(f'{{"topicConfigTable":{{{topics}}}}}')
    (root / "batchconsumequeue" / "packed").mkdir(parents=True)

    report = check(configuration(root))

    (complaint,) = report.complaints
    assert complaint.startswith("config: topic orders has queue.type=BatchCQ, but its queues are SimpleCQ")
    assert "kerolox store check --repair" in complaint
    assert "config: topic empty has queue.type=BatchCQ, which is not supported here" in report.notes


def test_a_topic_with_queues_of_both_types_is_reported(root: Path) -> None:
    (root / "batchconsumequeue" / "orders").mkdir(parents=True)

    assert [complaint.partition(",")[0] for complaint in complaints(root)] == [
        "topic orders has queues of type SimpleCQ and of type BatchCQ"
    ]


def test_a_deleted_topic_is_only_noted(root: Path) -> None:
    for path in sorted((root / "consumequeue").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"other":{}}}')

    report = check(configuration(root))

    assert report.complaints == []
    assert [note.endswith("the topic no longer exists") for note in report.notes] == [True, True]


def test_a_recreated_topic_is_only_noted() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *(draft(b"old") for _ in range(3)))
    store._queue_offsets.clear()
    put(store, draft(b"new first"), draft(b"new second"))
    for queue in store.queues:
        queue.flush()

    report = check(store.config, disk=disk)

    assert (report.complaints, report.entries) == ([], 2)
    assert any("recreated at" in note and "3 older records have no entry" in note for note in report.notes)


@pytest.mark.parametrize(
    ("offset", "data", "what"),
    [
        (32, struct.pack(">i", 70), "slots are in use"),
        (24, struct.pack(">q", 2**40), "the last entry points to"),
        (16, struct.pack(">q", 100), "is not consistent|the first entry points to"),
        (8, struct.pack(">q", 2**50), "s by the header"),
        (36, struct.pack(">i", 65), "impossible header"),
        (36, struct.pack(">i", 30), "the last entry points to"),
        (HEADER.size, struct.pack(">i", 0), "1 slots do not hold the newest"),
        (HEADER.size, struct.pack(">i", 9999), "1 slots do not hold the newest"),
        (SHAPE.entries_position + 5 * ENTRY.size, struct.pack(">i", 5), "entry 5 (has hash 5|is not consistent)"),
        (SHAPE.entries_position + 5 * ENTRY.size + 16, struct.pack(">i", 63), "entry 5 is not consistent"),
        (SHAPE.entries_position + 5 * ENTRY.size + 16, struct.pack(">i", 5), "entry 5 is not consistent"),
        (SHAPE.entries_position + 5 * ENTRY.size + 12, struct.pack(">i", -1), "entry 5 is not consistent"),
        (SHAPE.entries_position + 5 * ENTRY.size + 11, b"\xff", "no record begins there|is not consistent"),
    ],
)
def test_a_damaged_index_file_is_reported(root: Path, offset: int, data: bytes, what: str) -> None:
    overwrite(index_file(root), offset, data)

    assert any(re.match(f"index .*({what})", complaint) for complaint in complaints(root))


def test_records_missing_from_the_index_are_reported(root: Path) -> None:
    """The index has only the first record and those of the second file."""
    first, second = sorted((root / "index").iterdir())
    first.write_bytes(second.read_bytes())
    header = bytearray(first.read_bytes()[: HEADER.size])
    assert struct.unpack_from(">q", header, 16)[0] > 0
    second.unlink()
    (root / "index" / "20000101000000000").write_bytes(_index_of_one(root))

    assert any("records cannot be found by their keys" in complaint for complaint in complaints(root))


def _index_of_one(root: Path) -> bytes:
    """Return an index file with only the key of the first record."""
    hashed = key_hash("orders", b"u0")
    data = bytearray(SHAPE.file_size)
    HEADER.pack_into(data, 0, 1, 1, 0, 0, 1, 2)
    struct.pack_into(">i", data, HEADER.size + hashed % SHAPE.slots * 4, 1)
    ENTRY.pack_into(data, SHAPE.entries_position + ENTRY.size, hashed, 0, 0, 0)
    return bytes(data)


def test_tags_in_the_index_are_accepted_as_written_by_java_5_5() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    assert store.index is not None
    (position,) = put(store, draft(b"body", TAGS="red", KEYS="k"))
    store.index.put("orders", [b"T#red"], position.physical_offset, position.store_timestamp)
    store.index.flush().run()

    assert check(store.config, disk=disk).complaints == []
    store.index.put("orders", [b"T#blue"], position.physical_offset, position.store_timestamp)
    store.index.flush().run()

    (found,) = check(store.config, disk=disk).complaints
    assert "has no such key" in found


def test_an_index_file_of_a_wrong_size_is_reported(root: Path) -> None:
    index_file(root).write_bytes(index_file(root).read_bytes()[:-1])

    assert any("bytes, expected" in complaint for complaint in complaints(root))


@pytest.mark.parametrize("at", [0, 8, 16], ids=["log", "queues", "index"])
def test_a_checkpoint_after_the_last_record_is_reported(root: Path, at: int) -> None:
    overwrite(root / "checkpoint", at, struct.pack(">q", 2**60))

    (found,) = complaints(root)

    assert found.startswith("checkpoint: ")
    assert "the last record is of" in found


def test_a_checkpoint_of_a_wrong_size_is_reported(root: Path) -> None:
    (root / "checkpoint").write_bytes((root / "checkpoint").read_bytes()[:100])

    assert complaints(root) == ["checkpoint: has 100 bytes, expected 4096"]


def test_an_unreadable_table_is_reported_and_offsets_beyond_the_queue_are_noted(root: Path) -> None:
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text("{")
    offsets = '{"offsetTable":{"orders@g":{0:50,1:51},"orders@h":{7:1}}}'
    (root / "config" / "consumerOffset.json").write_text(offsets)

    report = check(configuration(root))

    assert len(report.complaints) == 1
    assert "topics.json" in report.complaints[0]
    assert report.notes == [
        "config: group g is at 51 of queue orders/1, which ends at 50",
        "config: group h is at 1 of queue orders/7, which ends at 0",
    ]
    assert report.tables == 1


def test_data_after_the_last_record_is_a_complaint_only_after_a_clean_stop(root: Path) -> None:
    last = max((root / "commitlog").iterdir())
    overwrite(last, 4000, b"something")

    (found,) = complaints(root)
    assert found.startswith("log: ends at")
    (root / "abort").touch()
    report = check(configuration(root))

    assert (report.complaints, report.is_clean) == ([], False)
    assert report.notes == [found]


def test_a_store_in_use_has_no_complaints_at_any_time() -> None:
    """Queues and index are written behind the log, and each step leaves them at another offset."""
    disk = SimulatedDisk()
    store = opened(disk)
    chance = random.Random(1)
    for number in range(60):
        put(store, draft(b"x" * chance.randrange(300), "orders", number % 3, KEYS=f"k{number}"))
        if chance.random() < 0.3:
            for queue in list(store.queues)[:2]:
                queue.flush()
        if chance.random() < 0.2 and store.index is not None:
            store.index.flush().run()

        report = check(store.config, disk=disk)

        assert (report.complaints, report.is_clean, report.records) == ([], False, number + 1)


def test_files_deleted_during_the_check_are_not_reported() -> None:
    """With one open file at a time every file is reopened, and so is found missing after retention deleted it."""
    disk = SimulatedDisk()
    settings = config(open_files_max=1)
    store = opened(disk, settings)
    for number in range(60):
        put(store, draft(b"x" * 250, "orders", number % 2, KEYS=f"k{number}"))
    for queue in store.queues:
        queue.flush()
    assert store.index is not None
    store.index.flush().run()
    calls = 0

    def delete(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            store.log.delete_before(3 * 4096)
            for queue in store.queues:
                queue.delete_before(3 * 4096)

    report = check(settings, delete, disk=disk)

    assert report.complaints == []
    assert "log: deleted up to 12288 while it was read" in report.notes
    assert report.records < 60


def test_the_number_of_complaints_is_limited() -> None:
    report = Report()

    for number in range(COMPLAINTS_MAX + 5):
        report.complain(str(number))

    assert (len(report.complaints), report.complaints_left_out) == (COMPLAINTS_MAX, 5)


def test_memory_does_not_grow_with_the_number_of_records() -> None:
    """An object per record would take some hundred bytes; the read-ahead buffers are full with few records already."""

    def peak(count: int) -> int:
        disk = SimulatedDisk()
        settings = config(
            mapped_file_size_commit_log=1 << 16,
            mapped_file_size_consume_queue=20 * 10_000,
            max_hash_slot_num=1000,
            max_index_num=100_000,
        )
        store = opened(disk, settings)
        for start in range(0, count, 100):
            put(store, *(draft(b"", "t", KEYS=f"k{number}") for number in range(start, start + 100)))
        for queue in store.queues:
            queue.flush()
        assert store.index is not None
        store.index.flush().run()
        tracemalloc.start()
        try:
            assert check(settings, disk=disk).entries == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(3000), peak(9000)

    assert many - few < 6000 * 50
