"""Runs Java programs of Apache RocketMQ, each in its own home directory, and stops all of them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.apache.maven import classpath
from tests.apache.requirements import require_java
from tests.apache.sources import compiled

READY_SECONDS = 90.0

# Packages that 4.9 accesses by reflection, closed since Java 16.
_OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util")

# 4.9 servers and tools read the first three from their home, clients and 5.x the others from the class path.
_LOGBACK_NAMES = (
    *("logback_namesrv.xml", "logback_broker.xml", "logback_tools.xml"),
    *("logback.xml", "rmq.logback.xml"),
)
_LOGBACK = """\
<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/rocketmq.log</file>
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class ProcessError(Exception):
    """The process ended or timed out; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Output and exit code of a finished program."""

    stdout: str
    stderr: str
    code: int


class Process:
    """A running program in its own process group, with its output in a file."""

    def __init__(self, command: Sequence[str], home: Path, address: str = "") -> None:
        self.home = home
        self.address = address
        self._printed = home / "output.txt"
        with self._printed.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=home,
                env=environment(home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self._printed.read_text(errors="replace")

    def wait_for(self, text: str, timeout_seconds: float = READY_SECONDS) -> str:
        """Wait for the first output line that contains `text` and return it."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            line = next((line for line in self.output().splitlines() if text in line), None)
            if line is not None:
                return line
            if not self.is_running:
                code = self._process.returncode
                raise ProcessError(f"ended with {code} before {text!r}: {self.output()[-3000:]}")
            time.sleep(0.05)
        raise ProcessError(f"no {text!r} within {timeout_seconds} s: {self.output()[-3000:]}")

    def terminate(self, timeout_seconds: float = 30.0) -> int:
        """Send SIGTERM and return the exit code."""
        self._signal(signal.SIGTERM)
        return self._process.wait(timeout_seconds)

    def stop(self) -> None:
        """Send SIGSTOP; its sockets stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process group; does nothing if it has ended."""
        self._signal(signal.SIGKILL)
        self._process.wait(30)

    def _signal(self, number: signal.Signals) -> None:
        # The leader may have ended while its group still runs, and vice versa.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@contextlib.contextmanager
def running(command: Sequence[str], home: Path, address: str = "") -> Iterator[Process]:
    """Run any program as a `Process`; kills its group at the end."""
    process = Process(command, home, address)
    try:
        yield process
    finally:
        process.kill()


def run_java(
    version: str,
    main_class: str,
    *arguments: str,
    timeout_seconds: float = 120.0,
    settings: Mapping[str, str] | None = None,
) -> Completed:
    """Run a main class to its end, or a file of our own such as Produce.java."""
    with temporary_home() as home:
        command = java_command(version, home, main_class, *arguments, settings=settings)
        return run(command, home, timeout_seconds)


def run(command: Sequence[str], home: Path, timeout_seconds: float) -> Completed:
    """Run a program to its end. Kills its group and raises ProcessError after the timeout."""
    with subprocess.Popen(
        command,
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            printed = (stdout + stderr)[-3000:]
            raise ProcessError(f"{command[-3:]} took over {timeout_seconds} s: {printed}") from None
    return Completed(stdout, stderr, process.returncode)


def java_command(
    version: str, home: Path, main_class: str, *arguments: str, settings: Mapping[str, str] | None = None
) -> list[str]:
    """The command line of a main class of that version, or of `Name.java` in tests/apache/java.

    `settings` are laid over the properties that every virtual machine here is given.
    """
    require_java()
    jars = classpath(version)
    if main_class.endswith(".java"):
        jars = f"{compiled(version, main_class)}{os.pathsep}{jars}"
        main_class = main_class.removesuffix(".java")
    properties = {
        "user.home": str(home),
        "rocketmq.home.dir": str(home),
        "rocketmq.client.logUseSlf4j": "true",
        "java.net.preferIPv4Stack": "true",
        # Rebalance interval: a consumer whose first rebalance came too early need not wait 20 s.
        "rocketmq.client.rebalance.waitInterval": "1000",
        "java.io.tmpdir": str(home),
        # Tests also run on nearly full disks.
        "rocketmq.broker.diskSpaceWarningLevelRatio": "0.99",
        **(settings or {}),
    }
    return [
        "java",
        *("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        *(f"-D{key}={value}" for key, value in properties.items()),
        *("-cp", f"{home / 'conf'}{os.pathsep}{jars}", main_class, *arguments),
    ]


def environment(home: Path) -> dict[str, str]:
    """Return the environment with all variables that RocketMQ reads set to `home`."""
    inherited = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    return {**inherited, "ROCKETMQ_HOME": str(home), "HOME": str(home)}


@contextlib.contextmanager
def temporary_home() -> Iterator[Path]:
    """A temporary directory laid out as ROCKETMQ_HOME."""
    with tempfile.TemporaryDirectory(prefix="kerolox-apache-", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        (home / "conf").mkdir()
        for name in _LOGBACK_NAMES:
            (home / "conf" / name).write_text(_LOGBACK)
        yield home


def free_port(*neighbours: int) -> int:
    """Return a free port whose neighbours (+1, -2, ...) are free as well.

    It lies below the range from which outgoing connections get theirs, so none of them takes it meanwhile.
    """
    for _ in range(200):
        port = random.randrange(12000, 32000)
        with contextlib.ExitStack() as held:
            try:
                for offset in (0, *neighbours):
                    held.enter_context(socket.socket()).bind(("", port + offset))
            except OSError:
                continue
            return port
    raise ProcessError("no free port between 12000 and 32000")
