"""The settings of a store are detected from its files."""

from pathlib import Path

import pytest

from kerolox.store.check.file_sizes import detect_settings
from kerolox.store.config import StoreConfig
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, config, draft, opened, put, run, without_threads


def sizes(settings: StoreConfig) -> tuple[int, ...]:
    return (
        settings.mapped_file_size_commit_log,
        settings.mapped_file_size_consume_queue,
        settings.max_hash_slot_num,
        settings.max_index_num,
    )


@pytest.mark.parametrize(
    ("slots", "entries"), [(16, 64), (16, 24), (1, 100), (500, 2), (7, 7), (100, 1000), (10_000, 40_000)]
)
@pytest.mark.parametrize("count", [1, 2, 30])
def test_detected_sizes_are_those_the_store_was_written_with(
    slots: int, entries: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    settings = config(
        mapped_file_size_commit_log=8192,
        mapped_file_size_consume_queue=20 * 5,
        max_hash_slot_num=slots,
        max_index_num=entries,
    )
    store = opened(disk, settings)
    put(store, draft(b"without a key"), *(draft(b"x", KEYS=f"k{number}") for number in range(count)))
    run(store.close())

    assert sizes(detect_settings(ROOT, disk)) == sizes(settings)


def test_an_empty_directory_gives_the_defaults(tmp_path: Path) -> None:
    assert sizes(detect_settings(tmp_path)) == sizes(StoreConfig())
