"""Compiles our own Java programs, once per version of Apache RocketMQ."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.apache.maven import cache_directory, classpath

_SOURCES = Path(__file__).parent / "java"
_COMPILE_SECONDS = 120.0


class CompileError(Exception):
    """javac failed; the message is its output."""


def compiled(version: str, name: str) -> Path:
    """Return the directory with the classes of `name`, such as Admin.java; shared between processes."""
    source = _SOURCES / name
    jars = classpath(version)
    digest = hashlib.sha256(source.read_bytes() + jars.encode()).hexdigest()[:16]
    target = cache_directory() / "apache" / version / f"{source.stem}-{digest}"
    if target.exists():
        return target
    scratch = Path(tempfile.mkdtemp(dir=target.parent))
    command = ["javac", "-nowarn", "-cp", jars, "-d", str(scratch), str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
    if finished.returncode != 0:
        shutil.rmtree(scratch)
        raise CompileError(f"javac {name} against {version}: {finished.stderr}")
    try:
        scratch.rename(target)
    except OSError:  # Another process was faster; its result is equal.
        shutil.rmtree(scratch)
    return target
