"""Records the units that Apache keeps beside consume queues: python -m tests.golden.record_queue_ext"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.apache import SERVER_VERSIONS, VERSIONS
from tests.apache.processes import run_java
from tests.golden.recordings import HERE
from tests.store.ext_cases import GOLDEN_SEGMENT_SIZE, java_lines


def run_ext(version: str, root: Path, segment_size: int, lines: list[str], *addresses: int) -> list[str]:
    """Run Apache's own class over a directory; return the units at these addresses, then those of the lines put."""
    commands = root.parent / "units.txt"
    commands.write_text("".join(f"{line}\n" for line in lines))
    arguments = (str(root), str(segment_size), str(commands), *map(str, addresses))
    completed = run_java(SERVER_VERSIONS[version], "QueueExt.java", *arguments)
    assert completed.code == 0, completed
    return completed.stdout.splitlines()


def files_of(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "t" / "0").iterdir())]


def recorded(version: str, root: Path) -> str:
    """One line for each file, in hexadecimal digits, and one with the addresses."""
    *_, addresses = run_ext(version, root, GOLDEN_SEGMENT_SIZE, java_lines())
    return "".join(f"{line}\n" for line in (*(content.hex() for content in files_of(root)), addresses))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        found = {recorded(version, Path(directory) / version) for version in VERSIONS}
    assert len(found) == 1, "the two generations differ"
    (HERE / "queue_ext.hex").write_text(found.pop())
