"""`make compat`: runs every comparison with Apache RocketMQ, file by file, and writes the page of results.

Slow tests that `make test` skips run here, too, so that every test runs somewhere.

The results of a file are kept in artefacts/compat until it runs again, so arguments can select files
(`make compat ARGS="store features"`); the page is written when every file has results.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.compat.table import Table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
MARKED = "compat or slow"
RESULTS = ROOT / "artefacts" / "compat"
_TIMEOUT_SECONDS = 900
# The marker on a test, a class or a whole file.
_MARK = re.compile(rf"^\s*(?:@|pytestmark\b.*)pytest\.mark\.(?:{MARKED.replace(' or ', '|')})\b", re.MULTILINE)


def compare(file: Path) -> bool:
    """Run the comparisons of one file; return whether all passed."""
    results = RESULTS / f"{file.stem}.json"
    results.unlink(missing_ok=True)
    arguments = [sys.executable, "-m", "pytest", str(file), "-m", MARKED, "-q", f"--timeout={_TIMEOUT_SECONDS}"]
    started = time.monotonic()
    unsaved = results.with_suffix(".tmp")
    unsaved.write_text(json.dumps(Table().dump()))
    environment = os.environ | {"KEROLOX_COMPAT_FOUND": str(unsaved)}
    code = subprocess.run(arguments, cwd=ROOT, env=environment, check=False).returncode
    print(f"{file.stem}: {'passed' if code == 0 else 'FAILED'} after {time.monotonic() - started:.0f} s", flush=True)
    if code == 0:
        unsaved.rename(results)
    return code == 0


def files_marked() -> list[Path]:
    """Return the test files with compat or slow tests."""
    found = (ROOT / "tests").rglob("test_*.py")
    return sorted(file for file in found if _MARK.search(file.read_text()))


def main(names: list[str]) -> int:
    files = files_marked()
    selected = [file for file in files if not names or file.stem.removeprefix("test_") in names]
    if not selected:
        known = ", ".join(file.stem.removeprefix("test_") for file in files)
        print(f"no test file matches {', '.join(names)}; known: {known}")
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    failed = [file.stem for file in selected if not compare(file)]
    missing = [file.stem for file in files if not (RESULTS / f"{file.stem}.json").exists()]
    if missing:
        print(f"the page is not written, because these have no results yet: {', '.join(missing)}")
    else:
        table = Table()
        for file in files:
            table.add(json.loads((RESULTS / f"{file.stem}.json").read_text()))
        PAGE.write_text(table.page())
        print(f"written: {PAGE.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
