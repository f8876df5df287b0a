"""Prints what commands yield: Java's text in a pipe, tables and colours on a terminal, JSON for machines."""

import sys
from enum import Enum
from typing import Any

import click
import msgspec

from kerolox.cli.admin.parts import Table, Text


class Form(Enum):
    PLAIN = "plain"
    TERMINAL = "terminal"
    # Each row, message or result is an object in a line of its own.
    JSON = "json"


def form(*, is_json: bool) -> Form:
    if is_json:
        return Form.JSON
    return Form.TERMINAL if sys.stdout.isatty() else Form.PLAIN


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
            self._print(part.text())

    def clear(self) -> None:
        """Makes room for the next look at the same thing."""
        if self._form is Form.TERMINAL:
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
        from rich.console import Console
        from rich.table import Table as Drawn
        from rich.text import Text as Plain

        self.end()
        drawn = Drawn(box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
        for number, column in enumerate(table.columns):
            is_number = all(isinstance(row[number], (int, float)) for row in table.rows)
            drawn.add_column(column.lstrip("#"), justify="right" if is_number else "left", overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Plain(_cell(value)) for value in row))
        Console().print(drawn)
        self._last = "\n"


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
