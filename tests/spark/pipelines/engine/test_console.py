"""Display of a pipeline's progress."""

import io

from rich.console import Console

from kerolox.spark.pipelines.engine.console import format_table, progress_display
from kerolox.spark.pipelines.engine.progress import FlowProgress, PipelineProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _progress() -> PipelineProgress:
    return PipelineProgress("orders", None, "starting", 1, "local[2]", 0, 0)


def test_without_a_terminal_each_batch_and_each_state_is_a_line() -> None:
    stream, progress = io.StringIO(), _progress()
    with progress_display(stream) as show:
        show(progress)
        progress.state = "running"
        show(progress)
        progress.flows.append(FlowProgress("archive"))
        show(progress)
        flow = progress.flows[0]
        flow.batch, flow.rows, flow.rows_per_second, flow.lag, flow.batch_millis = 0, 400, 80.0, 600, 5000
        show(progress)
        show(progress)
        flow.batch, flow.rows, flow.lag = 1, 500, None
        progress.state = "done"
        show(progress)

    assert stream.getvalue().splitlines() == [
        "orders: starting",
        "orders: running",
        "orders: archive batch 0, 400 rows, 80 rows/s, lag 600, 5000 ms",
        "orders: archive batch 1, 500 rows, 80 rows/s, 5000 ms",
        "orders: done",
    ]


def test_on_a_terminal_progress_is_a_table() -> None:
    terminal, progress = Terminal(), _progress()
    progress.flows.append(FlowProgress("archive", batch=2, rows=12_345, lag=7, batch_millis=250))
    with progress_display(terminal) as show:
        show(progress)

    assert "archive" in terminal.getvalue()
    console = Console(file=io.StringIO(), width=100)
    console.print(format_table(progress))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "orders: starting on local[2]" in written
    assert all(text in written for text in ("12,345", "rows/s", "batch ms", "250"))
