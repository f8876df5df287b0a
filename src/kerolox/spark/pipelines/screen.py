"""What people see of a running pipeline: a table that changes on a terminal, lines in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from kerolox.spark.pipelines.progress import FlowProgress, PipelineProgress

if TYPE_CHECKING:
    from rich.table import Table

Show = Callable[[PipelineProgress], None]


@contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Show]:
    """Yields what shows progress as it comes."""
    target = stream or sys.stderr
    if not target.isatty():
        yield Lines(target)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=target), refresh_per_second=4) as live:
        yield lambda progress: live.update(table_of(progress))


class Lines:
    """A line when the state changes, and one for each batch of a flow."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._state = ""
        self._batches: dict[str, int] = {}

    def __call__(self, progress: PipelineProgress) -> None:
        if progress.state == "running":
            self._tell_state(progress)
        for flow in progress.flows:
            if self._batches.get(flow.name, -1) != flow.batch:
                self._batches[flow.name] = flow.batch
                self._stream.write(f"{progress.name}: {line_of(flow)}\n")
        self._tell_state(progress)
        self._stream.flush()

    def _tell_state(self, progress: PipelineProgress) -> None:
        if progress.state != self._state:
            self._state = progress.state
            self._stream.write(f"{progress.name}: {progress.state}\n")


def line_of(flow: FlowProgress) -> str:
    lag = "" if flow.lag is None else f", lag {flow.lag}"
    pace = f", {flow.rows_per_second:.0f} rows/s{lag}, {flow.batch_millis} ms" if flow.batch_millis else ""
    bad = f", {flow.bad_count} bad" if flow.bad_count else ""
    return f"{flow.name} batch {flow.batch}, {flow.rows} rows{bad}{pace}"


def table_of(progress: PipelineProgress) -> "Table":
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
