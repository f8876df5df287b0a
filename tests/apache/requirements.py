"""Requirements of tests against Apache RocketMQ: skip or fail if Java or Maven is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from typing import NoReturn

import pytest

JAVA_MAJOR_MIN = 11


def require_java() -> None:
    """Skip the test on a machine without Java or Maven; fails it where KEROLOX_REQUIRE_ALL is set."""
    missing = [command for command in ("java", "javac", "mvn") if shutil.which(command) is None]
    if missing:
        unmet(f"needs Java and Maven: no {', '.join(missing)} on the PATH")
    if java_major() < JAVA_MAJOR_MIN:
        unmet(f"needs Java and Maven: java is {java_major()}, at least {JAVA_MAJOR_MIN} wanted")


def unmet(reason: str) -> NoReturn:
    """Skip the running test, or fail it if KEROLOX_REQUIRE_ALL is set."""
    if os.environ.get("KEROLOX_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def java_major() -> int:
    """Return the feature release of java on the PATH, such as 8, 17 or 21; 0 if unknown."""
    command = ["java", "-version"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', finished.stderr)
    return int(match.group(1)) if match else 0
