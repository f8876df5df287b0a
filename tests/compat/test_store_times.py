"""Offsets by timestamp: ours returns the same as a Java broker for the same files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kerolox.store.config import StoreConfig
from kerolox.store.reader import Boundary
from kerolox.store.store import Store
from tests.apache import VERSIONS
from tests.apache.processes import run_java
from tests.apache.requirements import require_java
from tests.apache.servers import broker, name_server

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300)]

COUNT = 60
# 4.x selects a file by its modification time, which is not reliable, so it gets a single file.
QUEUE_SIZES = {"4.9.8": 6_000_000, "5.5.0": 200}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_millisecond_has_the_same_offset_as_in_java(tmp_path: Path, version: str) -> None:
    require_java()
    root = tmp_path / "store"
    settings = {"mappedFileSizeConsumeQueue": str(QUEUE_SIZES[version])}
    with name_server(version) as naming, broker(version, naming.address, properties=settings) as serving:
        completed = run_java(version, "Times.java", naming.address, "timed", str(COUNT))
        serving.terminate()
        shutil.copytree(serving.home / "store", root)
    *lines, last = completed.stdout.splitlines()
    queue_id = int(last.removeprefix("queue "))
    store = Store(
        StoreConfig(
            store_path_root_dir=root,
            mapped_file_size_commit_log=16 << 20,
            mapped_file_size_consume_queue=QUEUE_SIZES[version],
            max_hash_slot_num=10_000,
            max_index_num=40_000,
        )
    )
    store.recover()
    answers = [[int(word) for word in line.split()] for line in lines if line[:1].isdigit()]

    for time, *expected in answers:
        if version >= "5":
            found = [store.reader.offset_at("timed", queue_id, time, boundary) for boundary in Boundary][:2]
            assert found == expected, time
        else:
            # If several messages have the same time, it may be any of them.
            nearest = store.reader.offset_at("timed", queue_id, time, Boundary.NEAREST)
            times = [store.reader.store_time("timed", queue_id, offset) for offset in (nearest, *expected)]
            assert len(set(times)) == 1, (time, times)
    assert len(answers) > COUNT
    store._release()
