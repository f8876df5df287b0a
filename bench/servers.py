"""Starts the servers under comparison: each with its own defaults, on loopback, killed at the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.connections import ask, connect
from bench.frames import encode
from bench.report import KEROLOX
from tests.apache import SERVER_VERSIONS, VERSIONS
from tests.apache.maven import classpath
from tests.apache.processes import Process, free_port, running, temporary_home
from tests.apache.servers import write_properties

JAVA_HEAP = ("-Xms512m", "-Xmx1g")
READY_SECONDS_MAX = 60.0
_PROBE_PAUSE_SECONDS = 0.002

# Packages that 4.9 accesses by reflection, opened as by Apache's runserver.sh for Java 9 and later.
JAVA_OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util")


class NotReadyError(Exception):
    """The server ended or did not respond in time; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server that can be started: its name in the tables, and its command line for a home directory and a port.

    `neighbours` are further ports that it listens on, relative to its port.
    """

    name: str
    command: Callable[[Path, int], list[str]]
    neighbours: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server that has answered its first request, `ready_seconds` after it was spawned."""

    name: str
    process: Process
    port: int
    ready_seconds: float

    @property
    def pid(self) -> int:
        return self.process.pid


def name_servers() -> list[ServerSpec]:
    """Return the NameServer of Kerolox, if installed, and Java's of each version."""
    apache = [_java_name_server(SERVER_VERSIONS[version]) for version in VERSIONS]
    ours = [ServerSpec(KEROLOX, _kerolox_command)] if _kerolox_executable().exists() else []
    return ours + apache


@contextlib.contextmanager
def started(spec: ServerSpec) -> Iterator[Server]:
    """Start a server, and yield it when it answers requests."""
    port = free_port(*spec.neighbours)
    with temporary_home() as home:
        command = spec.command(home, port)
        spawned = time.perf_counter()
        with running(command, home, f"127.0.0.1:{port}") as process:
            _wait_for_first_answer(process, port)
            yield Server(spec.name, process, port, time.perf_counter() - spawned)


def _wait_for_first_answer(process: Process, port: int) -> None:
    # GET_ROUTEINFO_BY_TOPIC of an unknown topic; any response will do. NameServers answer TOPIC_NOT_EXIST, brokers
    # REQUEST_CODE_NOT_SUPPORTED.
    request = encode(105, {"topic": "bench-unknown-topic"})
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            with connect(port) as connection:
                ask(connection, request)
                return
        except OSError:
            if not process.is_running:
                raise NotReadyError(f"ended before it answered: {process.output()[-3000:]}") from None
            time.sleep(_PROBE_PAUSE_SECONDS)
    raise NotReadyError(f"no answer within {READY_SECONDS_MAX:.0f} s: {process.output()[-3000:]}")


def _kerolox_executable() -> Path:
    return Path(sys.executable).parent / "mqnamesrv"


def _kerolox_command(home: Path, port: int) -> list[str]:
    settings = {
        "listenPort": str(port),
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(home / "namesrv.properties"),
    }
    return [str(_kerolox_executable()), "-c", str(write_properties(home / "bench.properties", settings))]


def _java_name_server(version: str) -> ServerSpec:
    """Return Java's NameServer with the options of Apache's own script and a smaller heap.

    The tests' `java_command` is not used here, because it limits the JIT compiler to start faster.
    """

    def command(home: Path, port: int) -> list[str]:
        settings = {"listenPort": str(port), "bindAddress": "127.0.0.1"}
        return [
            "java",
            *JAVA_HEAP,
            *(f"--add-opens={package}=ALL-UNNAMED" for package in JAVA_OPENED),
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            *("-cp", classpath(version), "org.apache.rocketmq.namesrv.NamesrvStartup"),
            *("-c", str(write_properties(home / "namesrv.properties", settings))),
        ]

    return ServerSpec(f"Apache {version}", command)
