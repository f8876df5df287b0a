"""Releases of Spark other than the installed one, installed from PyPI into the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from kerolox.spark.jvm import java_home
from tests.compat.foreign_clients import installed
from tests.spark.conftest import environment

# The newest release of each supported line.
SPARKS = ("4.0.5", "4.1.4", "4.2.1", pyspark.__version__)
# PyPI has no wheels of pyspark: pip builds one of 400 MB the first time.
_INSTALL_SECONDS = 1800.0


def line_of(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def environment_of(version: str) -> dict[str, str]:
    """Return the environment of a process that uses this release of Spark and the other installed packages."""
    environ = environment()
    environ.pop("SPARK_HOME", None)
    # Short runs need neither the second JIT compiler nor parallel garbage collection.
    environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if version != pyspark.__version__:
        environ["JAVA_HOME"] = str(java_home(os.environ, spark=line_of(version)))
        environ["PYTHONPATH"] = os.pathsep.join([str(_packages(version)), environ["PYTHONPATH"]])
    return environ


def _packages(version: str) -> Path:
    def install(target: Path) -> list[str]:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        return [*pip, f"--target={target}", f"pyspark=={version}"]

    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return installed(f"pyspark-{version}-{python}", install, _INSTALL_SECONDS)
