"""Runs pytest and measures which lines of `src` the tests run: `make test` and `make test-others`.

Python 3.13 and newer measure at no noticeable cost (`sys.monitoring`). On 3.11 measuring doubles the time of the tests,
so they run without it there, and on 3.12 it has not been tried.

    python -m tests.coverage run DATA_FILE PYTEST_ARGUMENTS...
    python -m tests.coverage check DATA_FILE...
"""

import os
import subprocess
import sys
from pathlib import Path

IS_MEASURED = sys.version_info >= (3, 13)
# Percent of all lines outside `kerolox.spark` and `kerolox.dashboard`, whose tests do not run on every Python in CI.
# Lines that only child processes run are not counted.
FLOOR = 96


def main(arguments: list[str]) -> int:
    action, *rest = arguments
    return {"run": _run, "check": _check}[action](rest)


def _run(arguments: list[str]) -> int:
    data_file, *pytest_arguments = arguments
    command = [sys.executable, "-m", "pytest", *pytest_arguments]
    if IS_MEASURED:
        Path(data_file).unlink(missing_ok=True)
        command[1:1] = ["-m", "coverage", "run", f"--data-file={data_file}"]
    return subprocess.run(command, env=os.environ | {"COVERAGE_CORE": "sysmon"}, check=False).returncode


def _check(data_files: list[str]) -> int:
    if not IS_MEASURED:
        print(f"coverage: not measured on Python {sys.version_info.major}.{sys.version_info.minor}")
        return 0
    coverage = [sys.executable, "-m", "coverage"]
    combined = f"{data_files[0]}.combined"
    subprocess.run([*coverage, "combine", "--quiet", "--keep", f"--data-file={combined}", *data_files], check=True)
    command = [*coverage, "report", f"--data-file={combined}", f"--fail-under={FLOOR}", "--precision=1"]
    reported = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = reported.stdout.splitlines()
    # The whole table only if it is needed to see what is missing.
    print("\n".join(lines if reported.returncode else lines[-1:]) + reported.stderr)
    return reported.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
