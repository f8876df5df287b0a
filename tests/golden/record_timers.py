"""Records the files of Java's timer store: python -m tests.golden.record_timers"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tests.golden.record_records import java
from tests.golden.timers import ENTERED, FILE_SIZE, PATH, WINDOW, Golden, save

SLOT_SIZE = 32
CHECKPOINT_SIZE = 56


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        lines = [entered.line for entered in ENTERED]
        printed = java("5.5.0", "Timers.java", str(root), str(WINDOW), str(FILE_SIZE), *lines)
        save(collected(root, printed))
    print(f"{PATH.stat().st_size} bytes")


def collected(root: Path, printed: str) -> Golden:
    """Read what Java left, without the zeros of the wheel and of the checkpoint's page."""
    wheel = (root / "timerwheel").read_bytes()
    slots = {at // SLOT_SIZE: wheel[at : at + SLOT_SIZE] for at in range(0, len(wheel), SLOT_SIZE)}
    checkpoint = (root / "config" / "timercheck").read_bytes()
    assert not any(checkpoint[CHECKPOINT_SIZE:])
    found = re.search(r"last unit at (\d+)", printed)
    assert found is not None
    return Golden(
        {path.name: path.read_bytes() for path in sorted((root / "timerlog").iterdir())},
        {number: slot for number, slot in slots.items() if any(slot)},
        len(wheel),
        checkpoint[:CHECKPOINT_SIZE],
        (root / "config" / "timermetrics").read_bytes(),
        int(found[1]),
    )


if __name__ == "__main__":
    main()
