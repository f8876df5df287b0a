"""`kerolox up` as a user runs it, in folders of a test's own."""

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
    """Runs a command to its end."""
    return subprocess.run(
        [*KEROLOX, *arguments], env=environment(home), capture_output=True, text=True, timeout=120, check=False
    )


def status(home: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(kerolox(home, "status", "--json").stdout)
    return told


def eventually(condition: Callable[[], bool]) -> None:
    """Returns when it is true; fails if it does not become so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


@contextmanager
def running(home: Path, *arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Runs `kerolox up` until the block ends; gives the process and what it said when it was ready."""
    process = subprocess.Popen(
        [*KEROLOX, "up", *FREE_PORTS, *arguments],
        env=environment(home) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Whoever runs the tests may have them outlive a terminal, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        said = []
        while not said or not said[-1].startswith("  Stop it"):
            line = process.stdout.readline()
            assert line, "".join(said)
            said.append(line.rstrip("\n"))
        yield process, said
    finally:
        process.kill()
        process.communicate()
