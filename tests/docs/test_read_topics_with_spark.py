"""The page about reading topics with Spark names the existing options and columns."""

import re
from pathlib import Path

import pytest

from kerolox.spark.option_parser import OptionParser
from kerolox.spark.options import read_options
from kerolox.spark.schema import topic_schema

PAGE = (Path(__file__).parents[2] / "docs/how-to/read-topics-with-spark.md").read_text()


def _named(heading: str, columns_read: int) -> set[str]:
    """Return the code spans in the first columns of the table under a heading."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1 : 1 + columns_read] for line in table.splitlines() if line.startswith("|")]
    return {name for row in rows for cell in row for name in re.findall(r"`([a-zA-Z.]+)`", cell)}


def test_the_page_names_exactly_the_existing_options(monkeypatch: pytest.MonkeyPatch) -> None:
    known: set[str] = set()
    monkeypatch.setattr(OptionParser, "end", lambda self: known.update(self._known.values()))
    read_options({"nameServer": "a:1", "subscribe": "orders"}, is_stream=True)

    assert _named("Options", 1) <= known
    assert known <= _named("Options", 2)


def test_the_page_names_every_column() -> None:
    assert {field.name for field in topic_schema(include_properties=True)} <= _named("Columns", 1)
