"""Prints what commands yield: Java's text in a pipe, tables and colours on a terminal, JSON for machines."""

import os
import sys
from enum import Enum
from typing import Any

import click
import msgspec

from kerolox.cli.admin.parts import Cell, Table, Text
from kerolox.runtime.printable import in_a_line, in_lines

# What is between two columns.
_GAP = 2


class Form(Enum):
    PLAIN = "plain"
    TERMINAL = "terminal"
    # Each row, message or result is an object in a line of its own.
    JSON = "json"


def form(*, is_json: bool) -> Form:
    if is_json:
        return Form.JSON
    return Form.TERMINAL if sys.stdout.isatty() else Form.PLAIN


def has_colours() -> bool:
    """Whether a terminal takes more than letters, and whoever sits at it wants to see it."""
    return not os.environ.get("NO_COLOR") and not is_dumb()


def is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


class Screen:
    def __init__(self, form: Form) -> None:
        self._form = form
        self._last = "\n"

    def show(self, part: Table | Text) -> None:
        if self._form is Form.JSON:
            for value in part.data():
                click.echo(msgspec.json.encode(value, enc_hook=str))
        elif self._form is Form.TERMINAL and isinstance(part, Table):
            self._draw(part)
        else:
            # What others have written must not move the terminal of who looks at it; a pipe gets it as it is.
            text = part.text()
            self._print(in_lines(text) if self._form is Form.TERMINAL else text)

    def clear(self) -> None:
        """Makes room for the next look at the same thing."""
        if self._form is Form.TERMINAL and not is_dumb():
            click.clear()

    def end(self) -> None:
        """Java leaves many a last line open, which a terminal would not forgive."""
        if self._form is Form.TERMINAL and not self._last.endswith("\n"):
            self._print("\n")

    def _print(self, text: str) -> None:
        if text:
            self._last = text
            click.echo(text, nl=False)

    def _draw(self, table: Table) -> None:
        # Only a terminal has to wait for it.
        from rich import box
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table as Drawn
        from rich.text import Text as Plain

        self.end()
        console = Console()
        columns = [column.lstrip("#") for column in table.columns]
        rows = [[in_a_line(_cell(value)) for value in row] for row in table.rows]
        widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) > console.width:
            self._print(_blocks(columns, rows, has_colours=has_colours()))
            return
        drawn = Drawn(
            box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for number, column in enumerate(columns):
            is_number = all(_is_number(row[number]) for row in table.rows)
            drawn.add_column(column, justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            drawn.add_row(*map(Plain, row))
        console.print(drawn)
        self._last = "\n"


def _blocks(columns: list[str], rows: list[list[str]], *, has_colours: bool) -> str:
    """Returns a line for each cell and a blank one between rows, where a row in one line would fall apart."""
    width = max(map(len, columns))
    heads = [f"{column:<{width}}" for column in columns]
    if has_colours:
        heads = [click.style(head, fg="cyan", bold=True) for head in heads]
    blocks = ["".join(f"{head}  {cell}\n" for head, cell in zip(heads, row, strict=True)) for row in rows]
    return "\n".join(blocks) if blocks else "\n".join(columns) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, Cell):
        return value.drawn.strip()
    return f"{value:.2f}" if isinstance(value, float) else str(value).strip()


def _is_number(value: object) -> bool:
    value = value.value if isinstance(value, Cell) else value
    return isinstance(value, (int, float)) or value is None
