"""What commands print: tables and text, each as Java's text and as JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

_WORD = re.compile("[A-Za-z0-9]+")
_WHOLE = re.compile(r"-?\d{1,19}")
_BROKEN = re.compile(r"-?\d+\.\d+(E-?\d+)?")
_CAPITALS = re.compile("^[A-Z]+(?![a-z])|^[A-Z]")


class Cell(str):
    """What a cell of Java's says to people; `value` is what it says to machines, `drawn` on a terminal."""

    value: object
    drawn: str

    def __new__(cls, text: str, value: object, drawn: str | None = None) -> Self:
        cell = super().__new__(cls, text)
        cell.value = value
        cell.drawn = text if drawn is None else drawn
        return cell


class Cells(Cell):
    """A cell of Java's in which there are several things; machines find each under its own name."""

    value: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. `layout` is that of a row as Java's printf has it, `heading` that of the headings."""

    layout: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    heading: str | None = None
    # Some of Java's are without a line of headings.
    has_heading: bool = True

    def text(self) -> str:
        heading = [(self.heading or _of_texts(self.layout)) % self.columns] if self.has_heading else []
        return "".join(f"{line}\n" for line in [*heading, *(self.layout % row for row in self.rows)])

    def data(self) -> Iterator[dict[str, Any]]:
        names = [member(column) for column in self.columns]
        for row in self.rows:
            found: dict[str, Any] = {}
            for name, cell in zip(names, row, strict=True):
                if isinstance(cell, Cells):
                    found |= cell.value
                else:
                    found[name] = cell.value if isinstance(cell, Cell) else cell
            yield found


@dataclass(frozen=True, slots=True)
class Text:
    """What is no table; `value` is what it says to machines, if it says anything."""

    content: str
    value: object = None

    def text(self) -> str:
        return self.content

    def data(self) -> Iterator[Any]:
        if self.value is not None:
            yield self.value


def value(text: str) -> object:
    """Returns what a text of Java's stands for: a number, a truth, or the text without what pads it."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text) if _BROKEN.fullmatch(text) else text
    except ValueError:
        return text


def settings(values: Iterable[tuple[str, object]], layout: str) -> str:
    """Returns a line for each key and value."""
    return "".join(f"{layout % pair}\n" for pair in values)


def member(column: str) -> str:
    """Returns the name of a heading in JSON: `#Broker Name` is brokerName."""
    first, *others = _WORD.findall(column)
    first = _CAPITALS.sub(lambda found: found[0].lower(), first)
    return first + "".join(word[0].upper() + word[1:] for word in others)


def _of_texts(layout: str) -> str:
    """Returns the layout for headings: the same widths, of texts."""
    return re.sub(r"%(-?)0?(\d*)(?:\.\d+)?[dfs]", r"%\1\2s", layout)
