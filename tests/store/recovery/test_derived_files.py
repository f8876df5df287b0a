"""Damaged or missing queues and index files are rebuilt from the log at startup."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.store.recovery.derived_files import FILE_NAME, DerivedFile, DerivedState, QueueEnd
from kerolox.store.store import Store
from tests.store.disks import Directory, SimulatedDisk
from tests.store.stores import ROOT, all_records, config, draft, opened, put, run, without_threads

QUEUES = ROOT / "consumequeue"
INDEX = ROOT / "index"
KEYS = [(topic, queue_id) for topic in ("orders", "parts") for queue_id in range(3)]
MESSAGES = 90

Written = dict[tuple[str, int], list[bytes]]


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    without_threads(monkeypatch)
    caplog.set_level(logging.WARNING)


def fill(disk: SimulatedDisk, *, is_clean: bool = True) -> Written:
    store = opened(disk)
    for number in range(MESSAGES):
        topic, queue_id = KEYS[number % len(KEYS)]
        put(store, draft(b"%d" % number * (number % 9), topic, queue_id, KEYS=f"k{number}"))
    written = served(store)
    run(store.flush_behind.flush())
    if is_clean:
        run(store.close())
    return written


def served(store: Store) -> Written:
    return {key: all_records(store, *key) for key in KEYS}


def queue_file(topic: str, queue_id: int, number: int = 0) -> Path:
    """Files of a queue have eight entries here."""
    return QUEUES / topic / str(queue_id) / f"{number * 160:020d}"


def remove_queue(disk: SimulatedDisk, topic: str, queue_id: int) -> None:
    directory = disk.root
    for part in (QUEUES / topic).parts[1:]:
        node = directory.names[part]
        assert isinstance(node, Directory)
        directory = node
    del directory.names[str(queue_id)]


def cut_queue(disk: SimulatedDisk) -> None:
    disk.overwrite(queue_file("orders", 1, 1), 40, bytes(120))


def swap_queues(disk: SimulatedDisk) -> None:
    one, other = queue_file("orders", 1, 1), queue_file("parts", 2, 1)
    contents = disk.content(one), disk.content(other)
    disk.overwrite(one, 0, contents[1])
    disk.overwrite(other, 0, contents[0])


def lengthen_queue(disk: SimulatedDisk) -> None:
    disk.write(queue_file("orders", 1), disk.content(queue_file("orders", 1)) + b"more")


DAMAGES: dict[str, Callable[[SimulatedDisk], None]] = {
    "a queue is missing": lambda disk: remove_queue(disk, "orders", 1),
    "the end of a queue is zero": cut_queue,
    "the first file is missing": lambda disk: disk.remove(queue_file("orders", 1)),
    "a file in between is missing": lambda disk: disk.remove(queue_file("orders", 1, 1)),
    "zeros in the middle": lambda disk: disk.overwrite(queue_file("orders", 1), 60, bytes(40)),
    "a file is too long": lengthen_queue,
    "files are swapped": swap_queues,
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_queue_is_rebuilt(damage: str, is_clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    written = fill(disk, is_clean=is_clean)
    disk = disk.after_kill()
    DAMAGES[damage](disk)

    store = opened(disk)

    assert served(store) == written
    assert "consume queue orders/1" in caplog.text
    run(store.close())
    caplog.clear()
    assert served(opened(disk.after_kill())) == written
    assert caplog.text == ""


def test_the_warning_names_the_queue_and_the_number_of_entries(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    fill(disk)
    remove_queue(disk, "parts", 2)

    opened(disk.after_kill())

    assert "consume queue parts/2: it is missing, but had 15 entries; rebuilding it" in caplog.text
    assert "consume queue parts/2 was rebuilt from the commit log with 15 entries" in caplog.text


def test_new_messages_continue_a_rebuilt_queue() -> None:
    disk = SimulatedDisk()
    fill(disk)
    remove_queue(disk, "parts", 2)
    store = opened(disk.after_kill())

    assert put(store, draft(b"new", "parts", 2))[0].queue_offset == 15


def test_a_missing_queue_is_rebuilt_without_the_state_file(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    written = fill(disk)
    disk.remove(ROOT / FILE_NAME)
    remove_queue(disk, "orders", 0)

    assert served(opened(disk.after_kill())) == written
    assert "reading the whole commit log" in caplog.text


def test_a_clean_start_of_an_intact_store_reads_no_record(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    fill(disk)
    store = Store(config(), disk=disk.after_kill())

    recovered = store.recover()

    assert recovered.records == recovered.checksummed
    assert caplog.text == ""


def test_queues_of_a_deleted_topic_are_not_rebuilt() -> None:
    disk = SimulatedDisk()
    fill(disk, is_clean=False)
    store = opened(disk)
    run(store.topic_cleanup.delete(["orders"]))

    assert {topic for (topic, _), _ in opened(disk.after_kill()).queues.items()} == {"parts"}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda disk, path: disk.overwrite(path, 0, bytes(40)), id="its head is zero"),
        pytest.param(lambda disk, path: disk.overwrite(path, 39, b"\x02"), id="its head says less"),
        pytest.param(lambda disk, path: disk.overwrite(path, 0, b"\xff" * 40), id="its head is nonsense"),
        pytest.param(lambda disk, path: disk.remove(path), id="it is missing"),
        pytest.param(lambda disk, path: disk.write(path, disk.content(path)[:100]), id="it is cut"),
    ],
)
@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "last"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_keys_are_found_after_an_index_file_was_damaged(
    is_clean: bool, which: int, damage: Callable[[SimulatedDisk, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    fill(disk, is_clean=is_clean)
    disk = disk.after_kill()
    damage(disk, INDEX / disk.names(INDEX)[which])

    store = opened(disk)

    for number in range(MESSAGES):
        topic, queue_id = KEYS[number % len(KEYS)]
        assert [(found.topic, found.queue_id) for found in store.reader.find(topic, b"k%d" % number)] == [
            (topic, queue_id)
        ]
    assert "key index" in caplog.text or (which == -1 and not is_clean)
    run(store.close())


def test_saved_state_is_loaded(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    disk.make_directory(tmp_path)
    file = DerivedFile(disk, tmp_path / FILE_NAME)
    assert file.load() is None
    derived = DerivedState(7, [QueueEnd("orders", 1, 2, 3, 4)], {"20260101000000000": "00"})

    file.save(derived)

    assert file.load() == derived


@pytest.mark.parametrize("content", [b"", b"00000000", b"no checksum at all", b"83dcefb7{}"])
def test_a_damaged_file_is_ignored(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    fill(disk)
    disk.write(ROOT / FILE_NAME, content)

    opened(disk)

    assert "is ignored" in caplog.text
