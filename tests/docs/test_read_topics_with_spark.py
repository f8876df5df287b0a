"""The page about reading topics with Spark says what there is."""

import re
from pathlib import Path

import pytest

from kerolox.spark.given import Given
from kerolox.spark.options import read_options
from kerolox.spark.schema import columns

PAGE = (Path(__file__).parents[2] / "docs/how-to/read-topics-with-spark.md").read_text()


def _named(heading: str, columns_read: int) -> set[str]:
    """Returns what the table under a heading has in backquotes, in its first columns."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1 : 1 + columns_read] for line in table.splitlines() if line.startswith("|")]
    return {name for row in rows for cell in row for name in re.findall(r"`([a-zA-Z.]+)`", cell)}


def test_it_names_every_option_there_is_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    known: set[str] = set()
    monkeypatch.setattr(Given, "end", lambda self: known.update(self._known.values()))
    read_options({"nameServer": "a:1", "subscribe": "orders"}, is_stream=True)

    assert _named("Options", 1) <= known
    assert known <= _named("Options", 2)


def test_it_names_every_column() -> None:
    assert {field.name for field in columns(include_properties=True)} <= _named("Columns", 1)
