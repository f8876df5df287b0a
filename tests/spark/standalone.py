"""Spark's standalone cluster on loopback: a master and two workers, as processes of the installed package."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from tests.apache.processes import running, temporary_home
from tests.spark.conftest import environment

_READY_SECONDS = 180.0
_GONE_SECONDS = 60.0


@contextlib.contextmanager
def standalone_cluster(workers: int = 2) -> Iterator[str]:
    """Yield the address of a master whose workers, of one core each, are registered; ends all processes on exit."""
    with temporary_home() as home:
        try:
            with contextlib.ExitStack() as stack:
                master = stack.enter_context(
                    running(_command("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"), home)
                )
                address = master.wait_for("Starting Spark master at", _READY_SECONDS).split()[-1]
                for number in range(workers):
                    directory = home / f"worker-{number}"
                    directory.mkdir()
                    arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1")
                    command = _command(
                        "worker.Worker", *arguments, "--memory", "1g", "--work-dir", str(directory), address
                    )
                    worker = stack.enter_context(running(command, directory))
                    worker.wait_for("Successfully registered with master", _READY_SECONDS)
                yield address
        finally:
            # Executors end with their workers, and Python workers when they notice that.
            left = _wait_until_gone(home)
        assert left == [], f"processes were left behind: {left}"


def _command(name: str, *arguments: str) -> list[str]:
    settings = {
        **{key: environment()[key] for key in ("JAVA_HOME", "PYSPARK_PYTHON", "PYTHONPATH", "PYTHONPYCACHEPREFIX")},
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    assignments = [f"{key}={value}" for key, value in settings.items()]
    return ["env", *assignments, str(program), f"org.apache.spark.deploy.{name}", *arguments]


def _wait_until_gone(home: Path) -> Sequence[str]:
    """Kill processes that have not ended in time, and return their command lines."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (left := _processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process_id in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    return list(left.values())


def _processes_of(home: Path) -> dict[int, str]:
    """Return the command lines of processes whose HOME is this directory or within it, by process id."""
    found = {}
    mark = f"HOME={home}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(entry.startswith(mark) for entry in (path / "environ").read_bytes().split(b"\0")):
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found
