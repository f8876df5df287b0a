"""Shows the progress of a pipeline: a live table on a terminal, else lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from kerolox.spark.pipelines.engine.progress import FlowProgress, PipelineProgress

if TYPE_CHECKING:
    from rich.table import Table

Show = Callable[[PipelineProgress], None]


@contextmanager
def progress_display(stream: TextIO | None = None) -> Iterator[Show]:
    """Yield a function that shows progress."""
    target = stream or sys.stderr
    if not target.isatty():
        yield ConsoleLines(target)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=target), refresh_per_second=4) as live:
        yield lambda progress: live.update(format_table(progress))


class ConsoleLines:
    """Writes a line when the state changes, and one for each batch of a flow."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._state = ""
        self._batches: dict[str, int] = {}

    def __call__(self, progress: PipelineProgress) -> None:
        if progress.state == "running":
            self._write_state(progress)
        for flow in progress.flows:
            if self._batches.get(flow.name, -1) != flow.batch:
                self._batches[flow.name] = flow.batch
                self._stream.write(f"{progress.name}: {format_flow(flow)}\n")
        self._write_state(progress)
        self._stream.flush()

    def _write_state(self, progress: PipelineProgress) -> None:
        if progress.state != self._state:
            self._state = progress.state
            self._stream.write(f"{progress.name}: {progress.state}\n")


def format_flow(flow: FlowProgress) -> str:
    lag = "" if flow.lag is None else f", lag {flow.lag}"
    rate = f", {flow.rows_per_second:.0f} rows/s{lag}, {flow.batch_millis} ms" if flow.batch_millis else ""
    bad = f", {flow.bad_count} bad" if flow.bad_count else ""
    return f"{flow.name} batch {flow.batch}, {flow.rows} rows{bad}{rate}"


def format_table(progress: PipelineProgress) -> "Table":
    from rich.table import Table

    title = f"{progress.name}: {progress.state}" + (f" on {progress.master}" if progress.master else "")
    table = Table("flow", title=title, title_justify="left")
    for name in ("batch", "rows", "rows/s", "lag", "batch ms"):
        table.add_column(name, justify="right")
    for flow in progress.flows:
        table.add_row(
            flow.name,
            str(flow.batch) if flow.batch >= 0 else "-",
            f"{flow.rows:,}",
            f"{flow.rows_per_second:,.0f}",
            "-" if flow.lag is None else f"{flow.lag:,}",
            f"{flow.batch_millis:,}",
        )
    return table
