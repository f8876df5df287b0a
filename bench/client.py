"""`python -m bench.client`: compares our client with Java's and with the C++ client of PyPI, on one broker."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import client_tables as tables
from bench import messages
from bench.brokers import our_broker
from bench.client_programs import Measured, Program, ProgramFailedError, programs
from bench.measure import machine
from bench.page import replace_part
from bench.report import KEROLOX, Report
from bench.servers import JAVA_HEAP, Server, started
from tests.apache.processes import ProcessError

SENDING = ("one", "many", "auto", "batches")
MODES = (*SENDING, "push")
TOPIC, FULL_TOPIC = "bench", "bench-full"
# The first messages are warm-up.
_SKIPPED = 0.25


class ClientRun:
    """Runs the same load with each client on one broker, in turns."""

    def __init__(self, server: Server, namesrv: str, progress: Progress, *, body_size: int) -> None:
        self._server = server
        self._namesrv = namesrv
        self._body_size = body_size
        self._task = progress.add_task("", total=None)
        self._progress = progress
        self._groups = 0
        self.failures: list[str] = []
        messages.make_topic(server.port, TOPIC)

    def show_status(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def fill(self, count: int) -> None:
        """Fill the topic to be consumed."""
        self.show_status(f"{count:,} messages to be consumed")
        messages.fill(self._server.port, FULL_TOPIC, count // messages.QUEUES, self._body_size)

    def sent(self, program: Program, mode: str, warm_up: float, seconds: float) -> Measured | None:
        """Measure sending for some seconds, with the fastest API of the client if it has several."""
        measurements = []
        for variant in program.variants.get(mode, (mode,)):
            self.show_status(f"{tables.LABELS[mode]}: {program.name} ({variant})")
            before = messages.stored(self._server.port, TOPIC)
            arguments = (TOPIC, variant, str(self._body_size), str(warm_up), str(seconds))
            measured = self._measure(program, *arguments, seconds=warm_up + seconds)
            if measured is None:
                continue
            more = messages.stored(self._server.port, TOPIC) - before
            if more < measured.count:
                raise RuntimeError(
                    f"{program.name} reports {measured.count} messages, but the topic has only {more} more"
                )
            measurements.append(measured)
        return max(measurements, key=lambda each: each.rate) if measurements else None

    def consumed(self, program: Program, count: int, seconds: float) -> Measured | None:
        """Measure how fast a new group consumes the whole topic."""
        self.show_status(f"{tables.LABELS['push']}: {program.name}")
        self._groups += 1
        count = count // messages.QUEUES * messages.QUEUES
        skipped = int(count * _SKIPPED)
        arguments = (FULL_TOPIC, "push", f"bench_consumer_{self._groups}", str(skipped), str(count))
        return self._measure(program, *arguments, seconds=seconds)

    def _measure(self, program: Program, *arguments: str, seconds: float) -> Measured | None:
        try:
            return program.measure(self._namesrv, *arguments, seconds=seconds)
        except (ProgramFailedError, ProcessError) as error:
            if program.name == KEROLOX:
                raise
            last = str(error).strip().splitlines()[-1][:300]
            self.failures.append(f"{program.name} failed once ({' '.join(arguments[1:])}): {last}")
            return None


@click.command()
@click.option("--seconds", default=4.0, show_default=True, help="Seconds of measured sending per client.")
@click.option("--rounds", default=3, show_default=True, help="Number of rounds; each client runs once per round.")
@click.option("--warm-up", default=6.0, show_default=True, help="Seconds of warm-up sending.")
@click.option("--messages", "count", default=200_000, show_default=True, help="Number of messages consumed.")
@click.option("--body-size", default=128, show_default=True, help="Bytes of each body.")
@click.option("--part", "parts", multiple=True, type=click.Choice(MODES), help="Run only this part.")
@click.option("--only", multiple=True, help="Only clients with this in their name.")
@click.option("--markdown", type=Path, help="Also write the tables to the client's part of this page.")
@click.option("--quick", is_flag=True, help="One short round as a smoke test; the figures mean nothing.")
def main(
    seconds: float,
    rounds: int,
    warm_up: float,
    count: int,
    body_size: int,
    parts: tuple[str, ...],
    only: tuple[str, ...],
    markdown: Path | None,
    quick: bool,
) -> None:
    """Compare the client of Kerolox with Java's and with the C++ client."""
    if quick:
        seconds, rounds, warm_up, count = min(seconds, 0.5), 1, min(warm_up, 0.5), min(count, 4000)
    parts = tuple(mode for mode in MODES if mode in (parts or MODES))
    wanted = [each for each in programs() if not only or any(part in each.name for part in only)]
    facts = machine()
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    results: dict[str, dict[str, list[Measured]]] = {mode: {program.name: [] for program in wanted} for mode in parts}
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(*columns, console=console, refresh_per_second=2, transient=True))
        broker, namesrv = our_broker("ASYNC_FLUSH", stack)
        run = ClientRun(stack.enter_context(started(broker)), namesrv, progress, body_size=body_size)
        if "push" in parts:
            run.fill(count)
        for _ in range(rounds):
            for mode in parts:
                for program in wanted:
                    if mode == "push":
                        measured = run.consumed(program, count, seconds)
                    else:
                        measured = run.sent(program, mode, warm_up, seconds)
                    if measured is not None:
                        results[mode][program.name].append(measured)
    names = tuple(program.name for program in wanted)
    sending = {mode: figures for mode, figures in results.items() if mode in SENDING}
    pushed = {mode: figures for mode, figures in results.items() if mode not in SENDING}
    sections = [
        tables.clients(names, title, figures, run.failures if is_first else ())
        for is_first, title, figures in (
            (True, f"Sending, {body_size} B", sending),
            (not sending, f"Push consumption, {body_size} B", pushed),
        )
        if figures
    ]
    facts |= {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Java's options": f"{' '.join(JAVA_HEAP)}, otherwise its defaults",
        "broker": "Kerolox, ASYNC_FLUSH, on the same machine; the same for all clients",
        "rounds": f"{rounds} of {seconds:g} s, in turns, each after {warm_up:g} s of warm-up; "
        f"{count:,} messages are consumed, the first quarter does not count; shown: the median (the best)",
    }
    title = "Client: Kerolox, Java's and C++"
    if quick:
        title += " (quick run: nothing is warm, the figures do not count)"
    report = Report(title, shlex.join(["python", "-m", "bench.client", *sys.argv[1:]]), facts, sections)
    report.print(console)
    if markdown is not None:
        replace_part(markdown, report.markdown())


if __name__ == "__main__":
    main()
