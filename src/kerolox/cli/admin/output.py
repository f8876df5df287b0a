"""The output of commands: tables and text, each as Java's text and as JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kerolox.runtime.text.terminal import escape_line

_WORD = re.compile("[A-Za-z0-9]+")
_INTEGER = re.compile(r"-?\d{1,19}")
_DECIMAL = re.compile(r"-?\d+\.\d+(E-?\d+)?")
_CAPITALS = re.compile("^[A-Z]+(?![a-z])|^[A-Z]")


class Cell(str):
    """A cell as Java prints it; `value` is for JSON, `terminal_text` for tables on a terminal."""

    value: object
    terminal_text: str

    def __new__(cls, text: str, value: object, terminal_text: str | None = None) -> Self:
        cell = super().__new__(cls, text)
        cell.value = value
        cell.terminal_text = text if terminal_text is None else terminal_text
        return cell


class CompositeCell(Cell):
    """A cell in which Java prints several values; in JSON each has its own name."""

    value: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. `layout` is Java's printf format of a row, `heading` that of the line of headings."""

    layout: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    heading: str | None = None
    # False for tables that Java prints without headings; JSON has their names all the same.
    has_heading: bool = True

    def text(self) -> str:
        heading = [(self.heading or _heading_layout(self.layout)) % self.columns] if self.has_heading else []
        rows = [tuple(_escaped(cell) for cell in row) for row in self.rows]
        return "".join(f"{line}\n" for line in [*heading, *(self.layout % row for row in rows)])

    def data(self) -> Iterator[dict[str, Any]]:
        names = [json_name(column) for column in self.columns]
        for row in self.rows:
            found: dict[str, Any] = {}
            for name, cell in zip(names, row, strict=True):
                if isinstance(cell, CompositeCell):
                    found |= cell.value
                else:
                    found[name] = cell.value if isinstance(cell, Cell) else cell
            yield found


@dataclass(frozen=True, slots=True)
class Text:
    """Output other than a table; `value` is its JSON, or None to leave it out there."""

    content: str
    value: object = None

    def text(self) -> str:
        return self.content

    def data(self) -> Iterator[Any]:
        if self.value is not None:
            yield self.value


def _escaped(cell: object) -> object:
    return escape_line(cell) if isinstance(cell, str) else cell


def parse_value(text: str) -> object:
    """Return the number or boolean that Java printed as text; any other text without its padding."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if _INTEGER.fullmatch(text) else float(text) if _DECIMAL.fullmatch(text) else text
    except ValueError:
        return text


def key_value_lines(values: Iterable[tuple[str, object]], layout: str) -> str:
    """Return a line for each key and value."""
    return "".join(f"{layout % pair}\n" for pair in values)


def json_name(column: str) -> str:
    """Return the JSON name of a column: `#Broker Name` becomes brokerName."""
    first, *others = _WORD.findall(column)
    first = _CAPITALS.sub(lambda found: found[0].lower(), first)
    return first + "".join(word[0].upper() + word[1:] for word in others)


def _heading_layout(layout: str) -> str:
    """Return the format of the headings: that of a row, with all columns as text."""
    return re.sub(r"%(-?)0?(\d*)(?:\.\d+)?[dfs]", r"%\1\2s", layout)
