"""`kerolox store`: what it prints, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerolox.cli.commands.store import _line
from kerolox.message.message import Message
from tests.store.check.test_check import COUNT, make_store


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await make_store(tmp_path / "store")
    return tmp_path / "store"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kerolox.cli.app import main; main()", "store", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_check_prints_findings_and_sets_the_exit_code(root: Path) -> None:
    whole = run("check", str(root))
    (root / "consumequeue" / "orders" / "0" / f"{0:020d}").unlink()
    broken = run("check", str(root))

    assert (whole.returncode, whole.stdout.splitlines()[-1]) == (0, "whole")
    assert f"{COUNT} records" in whole.stdout
    assert f"2 files, {COUNT} entries" in whole.stdout
    assert (broken.returncode, "WRONG" in broken.stdout) == (1, True)
    assert broken.stdout.splitlines()[-1].endswith("1 problem found")


def test_check_repairs_topics_of_a_wrong_queue_type(root: Path) -> None:
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"orders":{"attributes":{"queue.type":"BatchCQ"}}}}'
    )

    wrong = run("check", str(root))
    repaired = run("check", str(root), "--repair")
    again = run("check", str(root))

    assert (wrong.returncode, "topic orders has queue.type=BatchCQ" in wrong.stdout) == (1, True)
    assert (repaired.returncode, again.returncode) == (0, 0)
    assert "repaired: queue.type=BatchCQ was removed from topic orders" in repaired.stdout
    assert "BatchCQ" not in again.stdout


def test_check_prints_json(root: Path) -> None:
    result = run("check", str(root), "--json")

    report = json.loads(result.stdout)
    assert (result.returncode, report["records"], report["complaints"]) == (0, COUNT, [])


def test_dump_prints_one_record_per_line(root: Path) -> None:
    printed = run("dump", str(root), "--limit", "2")
    chosen = run("dump", str(root), "--topic", "orders", "--queue", "1", "--queue-offset", "49", "--body", "text")
    found = run("dump", str(root), "--key", "u7", "--json", "--body", "hex")

    assert [line.split()[-2:] for line in printed.stdout.splitlines()] == [["orders/0/0", "u0"], ["orders/1/0", "u1"]]
    assert chosen.stdout.rstrip().endswith("orders/1/49 u99 'body 99'")
    record = json.loads(found.stdout)
    assert (record["queueOffset"], record["properties"]["UNIQ_KEY"]) == (3, "u7")
    assert bytes.fromhex(record["body"]) == b"body 7"


def test_an_inconsistent_store_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for number in range(2):
        (tmp_path / "commitlog" / f"{number * 100:020d}").write_bytes(b"x" * 100)
    (tmp_path / "commitlog" / f"{200:020d}").write_bytes(b"x" * 99)

    result = run("check", str(tmp_path))

    assert result.returncode == 1
    assert "has 99 bytes, expected 100" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_directory_without_a_store_is_refused(root: Path) -> None:
    above = run("check", str(root.parent))
    (root.parent / "empty").mkdir()
    empty = run("dump", str(root.parent / "empty"))

    assert (above.returncode, above.stdout) == (1, "")
    assert above.stderr == f"Error: {root.parent} is not a store: it has no commitlog; try {root}\n"
    assert empty.returncode == 1
    assert empty.stderr == f"Error: {root.parent / 'empty'} is not a store: it has no commitlog\n"


def test_a_closed_pipe_ends_it_silently(root: Path) -> None:
    source, target = os.pipe()
    os.close(source)
    command = [sys.executable, "-c", "from kerolox.cli.app import main; main()", "store", "dump", str(root)]

    result = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    os.close(target)
    assert (result.returncode, result.stderr) == (1, "")


def test_a_store_time_out_of_range_is_printed_as_a_number() -> None:
    """The store timestamp is not covered by a checksum, so damage can make it any number."""
    printed = _line(Message("orders", b"body", b"", store_timestamp=(1 << 63) - 1), "none")

    assert printed.split()[2] == str((1 << 63) - 1)
