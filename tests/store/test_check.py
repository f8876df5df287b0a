"""The check sees what is wrong with a store, and changes nothing."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from kerolox.message.message import Message
from kerolox.message.record import encode
from kerolox.runtime.service import Supervisor
from kerolox.store.check import check, dump
from kerolox.store.commit_log import Draft
from kerolox.store.configuration import StoreConfig
from kerolox.store.consume_queue import ENTRY_SIZE
from kerolox.store.store import Store

COUNT = 100


def configuration(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=10 * ENTRY_SIZE,
        max_hash_slot_num=16,
        max_index_num=64,
    )


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """A store with a hundred messages in two queues and several files, stopped cleanly."""
    root = tmp_path / "store"
    store = Store(configuration(root))
    async with Supervisor(store):
        for number in range(COUNT):
            properties = b"UNIQ_KEY\x01u%d\x02" % number
            message = Message("orders", b"body %d" % number, properties, number % 2)
            await store.put(Draft("orders", number % 2, encode(message)))
    return root


def content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_whole_store_has_no_complaints_and_stays_as_it_is(root: Path) -> None:
    before = content(root)
    seen: list[tuple[int, int]] = []

    report = check(configuration(root), lambda done, total: seen.append((done, total)))

    assert (report.complaints, report.is_clean) == ([], True)
    assert (report.records, report.queues, report.entries) == (COUNT, 2, COUNT)
    assert len(seen) == COUNT
    assert content(root) == before


def test_a_flipped_bit_is_seen(root: Path) -> None:
    first = min((root / "commitlog").iterdir())
    data = bytearray(first.read_bytes())
    at = data.index(b"body 3")
    data[at] ^= 1
    first.write_bytes(data)

    complaints = check(configuration(root)).complaints

    assert any(complaint.startswith("log: no record from") for complaint in complaints)
    assert any("no record lies there" in complaint for complaint in complaints)


def test_an_entry_that_points_elsewhere_is_seen(root: Path) -> None:
    first = min((root / "consumequeue" / "orders" / "1").iterdir())
    data = bytearray(first.read_bytes())
    data[:ENTRY_SIZE] = data[ENTRY_SIZE : 2 * ENTRY_SIZE]
    first.write_bytes(data)

    complaints = check(configuration(root)).complaints

    assert any("entry 0 points to" in complaint for complaint in complaints)
    assert any("records have no entry" in complaint for complaint in complaints)


def test_records_are_dumped_in_the_order_of_the_log(root: Path) -> None:
    records = list(dump(configuration(root)))

    assert [record.unique_key for record in records] == [b"u%d" % number for number in range(COUNT)]
    assert list(dump(configuration(root), records[40].physical_offset)) == records[40:]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "kerolox"), "store", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_prints_what_it_found_and_ends_accordingly(root: Path) -> None:
    whole = run("check", str(root))
    (root / "consumequeue" / "orders" / "0" / f"{0:020d}").unlink()
    broken = run("check", str(root))
    printed = run("dump", str(root), "--count", "2")

    assert (whole.returncode, whole.stdout.splitlines()[-1]) == (0, "whole")
    assert f"{COUNT} records" in whole.stdout
    assert (broken.returncode, "WRONG" in broken.stdout) == (1, True)
    assert [line.split()[-2:] for line in printed.stdout.splitlines()] == [["orders/0/0", "u0"], ["orders/1/0", "u1"]]


def test_what_is_no_store_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"x" * 100)
    (tmp_path / "commitlog" / f"{100:020d}").write_bytes(b"x" * 99)

    result = run("check", str(tmp_path))

    assert result.returncode == 1
    assert "has 99 bytes, expected 100" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
