"""`python -m bench.up`: measures the start of `kerolox up`, compared with Java's NameServer and broker."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from bench.brokers import NEWEST_4, java_cluster
from bench.connections import ask, connect
from bench.frames import decode, encode
from bench.measure import MIB, machine, memory
from bench.page import replace_part
from bench.report import KEROLOX, Goal, Report, Row, Section, mebibytes, seconds
from bench.servers import JAVA_HEAP, READY_SECONDS_MAX
from tests.apache.processes import Process, free_port, running, temporary_home

WITH_DASHBOARD = f"{KEROLOX} with dashboard"
WITHOUT = "without a dashboard"
_PROBE_PAUSE_SECONDS = 0.002
_GET_BROKER_CLUSTER_INFO = 106
# Memory is measured after start-up allocations have settled.
_SETTLED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Started:
    """Seconds from the command until a broker was registered, and resident memory at that time."""

    seconds: float
    resident: int


def ours(*, with_dashboard: bool) -> Started:
    """Start `kerolox up` and stop it again."""
    namesrv_port, broker_port, dashboard_port = free_port(), free_port(-2, 1), free_port()
    with temporary_home() as home:
        command = [
            *("env", "-u", "PYTHONDONTWRITEBYTECODE", sys.executable, "-m", "kerolox", "up"),
            *("--data", str(home / "up"), "--namesrv-port", str(namesrv_port), "--broker-port", str(broker_port)),
            *(("--dashboard-port", str(dashboard_port)) if with_dashboard else ("--no-dashboard",)),
        ]
        spawned = time.perf_counter()
        with running(command, home, f"127.0.0.1:{namesrv_port}") as process:
            # With a dashboard, the message "Stop it" is printed only when the dashboard responds.
            wait_for_broker([process], namesrv_port, output="Stop it" if with_dashboard else "")
            elapsed = time.perf_counter() - spawned
            return Started(elapsed, resident([process]))


def java() -> Started:
    """Start Java's NameServer and, as soon as possible, its broker; return the time and memory of both."""
    with contextlib.ExitStack() as stack:
        spawned = time.perf_counter()
        processes, namesrv_port = java_cluster(stack)
        wait_for_broker(processes, namesrv_port)
        elapsed = time.perf_counter() - spawned
        return Started(elapsed, resident(processes))


def wait_for_broker(processes: list[Process], namesrv_port: int, output: str = "") -> None:
    """Wait until the NameServer lists a broker and the first process has printed `output`."""
    request = encode(_GET_BROKER_CLUSTER_INFO, {})
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), connect(namesrv_port) as connection:
            answer = decode(ask(connection, request))
            if answer.code == 0 and b"127.0.0.1" in answer.body and output in processes[0].output():
                return
        for process in processes:
            if not process.is_running:
                raise RuntimeError(f"process ended before the broker was registered: {process.output()[-3000:]}")
        time.sleep(_PROBE_PAUSE_SECONDS)
    raise RuntimeError(f"no broker within {READY_SECONDS_MAX:g} s: {processes[0].output()[-3000:]}")


def resident(processes: list[Process]) -> int:
    time.sleep(_SETTLED_SECONDS)
    return sum(memory(process.pid).resident for process in processes)


def measured(rounds: int, console: Console, *, has_dashboard: bool, has_java: bool) -> dict[str, list[Started]]:
    """Start each system once per round, in turns."""
    starters: dict[str, Callable[[], Started]] = {KEROLOX: lambda: ours(with_dashboard=False)}
    if has_dashboard:
        starters[WITH_DASHBOARD] = lambda: ours(with_dashboard=True)
    if has_java:
        starters[NEWEST_4] = java
    results: dict[str, list[Started]] = {name: [] for name in starters}
    for number in range(rounds):
        for name, start in starters.items():
            console.print(f"round {number + 1}/{rounds}: {name}")
            results[name].append(start())
    return results


def sections(results: dict[str, list[Started]]) -> list[Section]:
    """Return a table without and one with the dashboard."""
    found = [_section(WITHOUT, KEROLOX, results, resident_max=100 * MIB)]
    if WITH_DASHBOARD in results:
        found.append(_section("with the dashboard", WITH_DASHBOARD, results, resident_max=160 * MIB))
    return found


def _section(title: str, name: str, results: dict[str, list[Started]], *, resident_max: int) -> Section:
    shown = {KEROLOX: results[name], **{other: results[other] for other in results if other == NEWEST_4}}
    return Section(
        f"One command, {title}",
        tuple(shown),
        [
            Row(
                "from the command until a broker is registered",
                {system: [each.seconds for each in rounds] for system, rounds in shown.items()},
                seconds,
                goal=Goal(1.0, shown=seconds),
            ),
            Row(
                "resident, all processes",
                {system: [each.resident for each in rounds] for system, rounds in shown.items()},
                mebibytes,
                goal=Goal(resident_max, shown=mebibytes),
            ),
        ],
    )


def dashboard_is_installed() -> bool:
    """Whether the measured Python has the dashboard extra."""
    script = "from kerolox.local.up import has_dashboard; print(has_dashboard())"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Number of rounds.")
@click.option("--java/--no-java", "has_java", default=True, help="Also start Java's servers.")
@click.option("--markdown", type=Path, help="Also write the tables to this file.")
@click.option("--quick", is_flag=True, help="One round as a smoke test; the figures mean nothing.")
def main(rounds: int, has_java: bool, markdown: Path | None, quick: bool) -> None:
    """Measure start time and memory of `kerolox up`."""
    console = Console()
    facts = machine()
    has_dashboard = dashboard_is_installed()
    results = measured(1 if quick else rounds, console, has_dashboard=has_dashboard, has_java=has_java)
    facts |= {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Java's options": f"{' '.join(JAVA_HEAP)}, otherwise its defaults; NameServer and broker are two processes",
        "rounds": f"{1 if quick else rounds}, in turns; shown: the median (the best)",
    }
    if not has_dashboard:
        facts["dashboard"] = "not measured: the extra is not installed"
    command = shlex.join(["python", "-m", "bench.up", *sys.argv[1:]])
    report = Report("Up: `kerolox up` and Apache RocketMQ", command, facts, sections(results))
    report.print(console)
    if markdown is not None:
        replace_part(markdown, report.markdown())


if __name__ == "__main__":
    main()
