"""The clients under comparison: one program each, which measures itself in its own process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.java_clients import VERSION
from bench.report import KEROLOX
from bench.servers import JAVA_HEAP
from tests.apache.maven import classpath
from tests.apache.processes import run, temporary_home
from tests.apache.sources import compiled
from tests.compat.foreign_clients import cpp_command

JAVA = f"Apache {VERSION}, Java"
CPP = "C++ 0.4.4"
_GRACE_SECONDS = 120.0
_MEASURED = re.compile(r"^measured (\d+) ([\d.]+) ([\d.]+)$", re.MULTILINE)


class ProgramFailedError(Exception):
    """A program ended without a result; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Messages, seconds, and CPU seconds of the client."""

    count: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def cpu_per_message(self) -> float:
        return self.cpu_seconds / max(self.count, 1)


@dataclass(frozen=True, slots=True)
class Program:
    """A client: its name in the tables, its command line in a home directory, and its variants of some modes.

    If a mode has several variants, the fastest counts.
    """

    name: str
    command: Callable[[Path, tuple[str, ...]], list[str]]
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def measure(self, *arguments: str, seconds: float) -> Measured:
        """Run it to its end, with a timeout of `seconds` plus a grace period."""
        with temporary_home() as home:
            completed = run(self.command(home, arguments), home, seconds + _GRACE_SECONDS)
        found = _MEASURED.search(completed.stdout)
        if found is None or completed.code or not int(found[1]):
            printed = (completed.stdout + completed.stderr)[-2000:]
            raise ProgramFailedError(f"{self.name} {' '.join(arguments)} ended with {completed.code}: {printed}")
        return Measured(int(found[1]), float(found[2]), float(found[3]))


def programs() -> list[Program]:
    return [
        Program(KEROLOX, _ours, {}),
        Program(JAVA, _java, {"many": ("many", "threads")}),
        # It has no auto-batching, so its plain variants are measured instead.
        Program(CPP, _cpp, {"many": ("many", "threads"), "auto": ("many", "threads")}),
    ]


def _ours(home: Path, arguments: tuple[str, ...]) -> list[str]:
    # -P keeps the modules of this directory from shadowing others of the same name.
    return [sys.executable, "-P", str(Path(__file__).with_name("client_ours.py")), *arguments]


def _java(home: Path, arguments: tuple[str, ...]) -> list[str]:
    return [
        "java",
        *JAVA_HEAP,
        f"-Duser.home={home}",
        "-Drocketmq.client.logUseSlf4j=true",
        *("-cp", f"{home / 'conf'}:{compiled(VERSION, 'Rates.java')}:{classpath(VERSION)}", "Rates"),
        *arguments,
    ]


def _cpp(home: Path, arguments: tuple[str, ...]) -> list[str]:
    return cpp_command("cpp_rates.py", *arguments)
