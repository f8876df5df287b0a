"""`kerolox store`: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerolox.cli.store import _line
from kerolox.message.message import Message
from tests.store.checking.test_check import COUNT, make_store


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_store(tmp_path / "store")
    return tmp_path / "store"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kerolox.cli.app import main; main()", "store", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_check_prints_what_it_found_and_ends_accordingly(root: Path) -> None:
    whole = run("check", str(root))
    (root / "consumequeue" / "orders" / "0" / f"{0:020d}").unlink()
    broken = run("check", str(root))

    assert (whole.returncode, whole.stdout.splitlines()[-1]) == (0, "whole")
    assert f"{COUNT} records" in whole.stdout
    assert f"2 files, {COUNT} entries" in whole.stdout
    assert (broken.returncode, "WRONG" in broken.stdout) == (1, True)
    assert broken.stdout.splitlines()[-1].endswith("things are wrong")


def test_the_check_speaks_json(root: Path) -> None:
    result = run("check", str(root), "--json")

    report = json.loads(result.stdout)
    assert (result.returncode, report["records"], report["complaints"]) == (0, COUNT, [])


def test_records_are_printed_one_to_a_line(root: Path) -> None:
    printed = run("dump", str(root), "--limit", "2")
    chosen = run("dump", str(root), "--topic", "orders", "--queue", "1", "--queue-offset", "49", "--body", "text")
    found = run("dump", str(root), "--key", "u7", "--json", "--body", "hex")

    assert [line.split()[-2:] for line in printed.stdout.splitlines()] == [["orders/0/0", "u0"], ["orders/1/0", "u1"]]
    assert chosen.stdout.rstrip().endswith("orders/1/49 u99 'body 99'")
    record = json.loads(found.stdout)
    assert (record["queueOffset"], record["properties"]["UNIQ_KEY"]) == (3, "u7")
    assert bytes.fromhex(record["body"]) == b"body 7"


def test_what_is_no_store_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for number in range(2):
        (tmp_path / "commitlog" / f"{number * 100:020d}").write_bytes(b"x" * 100)
    (tmp_path / "commitlog" / f"{200:020d}").write_bytes(b"x" * 99)

    result = run("check", str(tmp_path))

    assert result.returncode == 1
    assert "has 99 bytes, expected 100" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_directory_with_nothing_of_a_store_is_not_told_to_be_whole(root: Path) -> None:
    above = run("check", str(root.parent))
    (root.parent / "empty").mkdir()
    empty = run("dump", str(root.parent / "empty"))

    assert (above.returncode, above.stdout) == (1, "")
    assert above.stderr == f"Error: {root.parent} is no store: it has no commitlog; look in {root}\n"
    assert (empty.returncode, empty.stderr) == (1, f"Error: {root.parent / 'empty'} is no store: it has no commitlog\n")


def test_who_reads_no_further_ends_it_without_a_word(root: Path) -> None:
    source, target = os.pipe()
    os.close(source)
    command = [sys.executable, "-c", "from kerolox.cli.app import main; main()", "store", "dump", str(root)]

    ended = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    os.close(target)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_record_of_a_year_that_no_calendar_has_is_printed_with_the_number() -> None:
    """The time in a record has no checksum, and damage makes it any number."""
    printed = _line(Message("orders", b"body", b"", store_timestamp=(1 << 63) - 1), "none")

    assert printed.split()[2] == str((1 << 63) - 1)
