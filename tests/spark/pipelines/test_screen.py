"""What people see of a pipeline."""

import io

from rich.console import Console

from kerolox.spark.pipelines.progress import FlowProgress, PipelineProgress
from kerolox.spark.pipelines.screen import shown, table_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _progress() -> PipelineProgress:
    return PipelineProgress("orders", None, "starting", 1, "local[2]", 0, 0)


def test_in_a_pipe_each_batch_and_each_state_is_a_line() -> None:
    stream, progress = io.StringIO(), _progress()
    with shown(stream) as show:
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


def test_on_a_terminal_it_is_a_table() -> None:
    terminal, progress = Terminal(), _progress()
    progress.flows.append(FlowProgress("archive", batch=2, rows=12_345, lag=7, batch_millis=250))
    with shown(terminal) as show:
        show(progress)

    assert "archive" in terminal.getvalue()
    console = Console(file=io.StringIO(), width=100)
    console.print(table_of(progress))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "orders: starting on local[2]" in written
    assert all(text in written for text in ("12,345", "rows/s", "batch ms", "250"))
