"""Prints the output of commands: Java's text in a pipe, tables with colours on a terminal, or JSON."""

import os
import sys
from enum import Enum
from typing import Any

import click

from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.echo import echo_json
from kerolox.runtime.text.terminal import escape_line, escape_lines

# Blanks between two columns.
_GAP = 2


class OutputFormat(Enum):
    PLAIN = "plain"
    TERMINAL = "terminal"
    # One object per line for each row, message or result.
    JSON = "json"


def output_format(*, is_json: bool) -> OutputFormat:
    if is_json:
        return OutputFormat.JSON
    return OutputFormat.TERMINAL if sys.stdout.isatty() else OutputFormat.PLAIN


def has_colours() -> bool:
    """Whether the terminal supports colours, and the user has not turned them off (NO_COLOR)."""
    return not os.environ.get("NO_COLOR") and not is_dumb()


def is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


class Printer:
    def __init__(self, output: OutputFormat) -> None:
        self._format = output
        self._last = "\n"

    def show(self, part: Table | Text) -> None:
        if self._format is OutputFormat.JSON:
            for value in part.data():
                echo_json(value)
        elif self._format is OutputFormat.TERMINAL and isinstance(part, Table):
            self._draw(part)
        else:
            # Escaped in a pipe, too: a line break in a name would forge a row for the next program.
            self._print(escape_lines(part.text()))

    def clear(self) -> None:
        """Clear the terminal before the next refresh."""
        if self._format is OutputFormat.TERMINAL and not is_dumb():
            click.clear()

    def end(self) -> None:
        """End the last line on a terminal: in many commands Java does not."""
        if self._format is OutputFormat.TERMINAL and not self._last.endswith("\n"):
            self._print("\n")

    def _print(self, text: str) -> None:
        if text:
            self._last = text
            click.echo(text, nl=False)

    def _draw(self, table: Table) -> None:
        # Imported here because it is slow, and only a terminal needs it.
        from rich import box
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text as RichText

        self.end()
        console = Console()
        columns = [column.lstrip("#") for column in table.columns]
        rows = [[escape_line(_cell(value)) for value in row] for row in table.rows]
        widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) > console.width:
            self._print(_blocks(columns, rows, has_colours=has_colours()))
            return
        rich_table = RichTable(
            box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for number, column in enumerate(columns):
            is_number = all(_is_number(row[number]) for row in table.rows)
            rich_table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            rich_table.add_row(*map(RichText, row))
        console.print(rich_table)
        self._last = "\n"


def _blocks(columns: list[str], rows: list[list[str]], *, has_colours: bool) -> str:
    """Return one line per cell and a blank line between rows, for terminals too narrow for the table."""
    width = max(map(len, columns))
    heads = [f"{column:<{width}}" for column in columns]
    if has_colours:
        heads = [click.style(head, fg="cyan", bold=True) for head in heads]
    blocks = ["".join(f"{head}  {cell}\n" for head, cell in zip(heads, row, strict=True)) for row in rows]
    return "\n".join(blocks) if blocks else "\n".join(columns) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, Cell):
        return value.terminal_text.strip()
    return f"{value:.2f}" if isinstance(value, float) else str(value).strip()


def _is_number(value: object) -> bool:
    value = value.value if isinstance(value, Cell) else value
    return isinstance(value, (int, float)) or value is None
