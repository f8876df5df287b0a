"""Our consume queue extensions have the same bytes as Apache's, and each reads the files of the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.queue_ext import ExtUnit, QueueExt
from tests.apache import VERSIONS
from tests.apache.requirements import require_java
from tests.golden.record_queue_ext import files_of, recorded, run_ext
from tests.golden.recordings import HERE
from tests.store.ext_cases import java_lines

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300)]

SEGMENT_SIZE = 4096


def ours(root: Path) -> QueueExt:
    return QueueExt(Segments(OpenFiles(RealDisk(), 100), root / "t" / "0", SEGMENT_SIZE, is_sparse=True))


def random_units(count: int, seed: int) -> tuple[ExtUnit, ...]:
    chance = random.Random(seed)
    sizes = (0, 8, 8, 8, 16, 500)
    return tuple(
        ExtUnit(chance.randrange(-(2**31), 2**31), chance.randrange(2**41), chance.randbytes(chance.choice(sizes)))
        for _ in range(count)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_java_writes_the_recorded_bytes(tmp_path: Path, version: str) -> None:
    require_java()

    assert recorded(version, tmp_path / "ext") == (HERE / "queue_ext.hex").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_reads_our_units_appends_and_we_read_all_units(tmp_path: Path, version: str) -> None:
    require_java()
    first, second = random_units(300, 1), random_units(300, 2)
    root, whole = tmp_path / "ext", tmp_path / "whole"
    ext = ours(root)
    addresses = [address for unit in first if (address := ext.put(unit)) is not None]
    ext.flush()

    *read, put = run_ext(version, root, SEGMENT_SIZE, java_lines(second), *addresses)

    assert read == java_lines(first)
    later = [int(address) for address in put.split(" ")]
    again = ours(root)
    again.load()
    assert [again.unit(address) for address in (*addresses, *later)] == [*first, *second]
    both = ours(whole)
    assert [both.put(unit) for unit in (*first, *second)] == [*addresses, *later]
    both.flush()
    assert files_of(whole) == files_of(root)
