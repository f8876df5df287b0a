"""Runs `kerolox up` like a user does, in folders of the test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEROLOX = [sys.executable, "-P", "-c", "from kerolox.cli.app import main; main(prog_name='kerolox')"]
FREE_PORTS = ("--namesrv-port", "0", "--broker-port", "0", "--dashboard-port", "0")
PATIENCE_SECONDS = 60


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
    return kept | {"HOME": str(home), "KEROLOX_HOME": str(home / "kerolox")}


def kerolox(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*KEROLOX, *arguments], env=environment(home), capture_output=True, text=True, timeout=120, check=False
    )


def status(home: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(kerolox(home, "status", "--json").stdout)
    return report


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; fail if that takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


@contextmanager
def running(home: Path, *arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run `kerolox up` until the block ends; yield the process and the lines that it printed when it was ready."""
    process = subprocess.Popen(
        [*KEROLOX, "up", *FREE_PORTS, *arguments],
        env=environment(home) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # If the tests run under nohup, an ignored SIGHUP would be inherited.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("  Stop it"):
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line.rstrip("\n"))
        yield process, lines
    finally:
        process.kill()
        process.communicate()
