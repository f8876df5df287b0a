"""What commands print: tables and text, each as Java's text and as JSON."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_WORD = re.compile("[A-Za-z0-9]+")
_CAPITALS = re.compile("^[A-Z]+(?![a-z])|^[A-Z]")


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
            yield dict(zip(names, row, strict=True))


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
