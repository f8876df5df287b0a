"""The table of compatibility results by version of Apache RocketMQ."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

_HEADINGS = ("part", "what", "Apache", "result", "seconds")
_PAGE = """\
# Compatibility with Apache RocketMQ

Written by `make compat`, which runs Apache's own brokers, clients and tools against our NameServer, and carries store
directories between Apache's brokers and ours. The column Apache is the version of clients and tools; the servers of
4.9.8 are not on Maven, so those of 4.9.7 run instead.

For each mqadmin command, two brokers register with Apache's NameServer and with ours, the command asks both, and
what it prints is compared letter by letter, but for addresses, rates, ages and padding. _In another order_: Apache's
NameServer hands out brokers and topics in the order of a hash map, on which nobody can rely. _The FAQ link is that
of 5.x_: the links with which errors end changed between 4.9 and 5.x.

For the commands of mqadmin 4.9.8 the same is done with brokers: Apache's of 4.9.7 and of 5.5.0 and two of ours, each
under a NameServer of ours, with a client that sends, consumes and leaves. Ours is set to the version it is held beside
where that is a matter of a setting (`useServerSideResetOffset`). Where the result is a reason, everything else that the
command printed was the same.

Our own mqadmin is held beside Java's of 4.9.8 on brokers of ours and of Apache: a command that looks is given to one
cluster by both tools, one that changes something by each tool to a cluster of its own. _Both fail_: Java prints a stack
where ours prints a sentence; the codes in them were the same. Commands and flags that came with 5.x are held beside
Java's of 5.5.0 (_our mqadmin, 5.x_), and those for accounts where brokers keep them, beside the tools of their release
(_our mqadmin, accounts_).

What both printed, to the letter, lies after `make compat` in `artefacts/compat/mqadmin`: a folder for the release of
Java's tool, in it one for whose brokers they were, and in that one for each command, with `java.txt` and `kerolox.txt`.

A store that is carried has several files of each sort and messages of every kind: plain, in batches, compressed with
zlib, LZ4 and Zstandard, large, with several keys, delayed and with a timer (5.x), due and not yet due, of transactions
committed, rolled back and pending. What a broker serves of it over the wire is compared byte by byte with what ours
reads in it: every record of every queue, system topics too, by queue offset, by id and by each of its keys.

"""

_FEATURES = """\
What clients do with one NameServer and two brokers of ours; each cell was run and says what was seen. _Not in this
client_: it was looked for, and there is nothing by which a program could ask for it.
"""

_SPARK = """\
What the source and the sink for Spark do on each release that is supported, with a NameServer and a broker of ours.
_Told to use 4.2_: the query does not begin, and the error says why.
"""


class Part(Enum):
    """The subject of a row, in the order of the table."""

    BROKERS = "brokers"
    CLIENTS = "clients"
    OUR_CLIENT = "our client"
    SPARK = "Spark"
    DEPARTURES = "departures"
    OTHER_LANGUAGES = "other languages"
    STORE = "store"
    MQADMIN = "mqadmin"
    OUR_MQADMIN = "our mqadmin"
    OUR_MQADMIN_LATER = "our mqadmin, 5.x"
    OUR_MQADMIN_ACCESS = "our mqadmin, accounts"


@dataclass(slots=True)
class Row:
    """The result of one test; `result` may be refined while it runs."""

    part: Part
    what: str
    version: str
    result: str = "as promised"
    seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        return (self.part.value, self.what, self.version, self.result, f"{self.seconds:.1f}")


@dataclass(slots=True)
class Cell:
    """The result of a feature with a client; `result` may be refined while it runs."""

    result: str = "ok"


# Feature → client or release → cell.
Matrix: TypeAlias = dict[str, dict[str, Cell]]


@dataclass(slots=True)
class Table:
    """The rows of a session, and the feature matrices of clients and Spark releases."""

    rows: list[Row] = field(default_factory=list)
    cells: Matrix = field(default_factory=dict)
    sparks: Matrix = field(default_factory=dict)

    def cell(self, feature: str, client: str) -> AbstractContextManager[Cell]:
        """Records the result of a feature with a client: FAILED and the reason if the block raises."""
        return self._cell(self.cells, feature, client)

    def spark_cell(self, feature: str, version: str) -> AbstractContextManager[Cell]:
        """Records the result of a feature with a release of Spark."""
        return self._cell(self.sparks, feature, f"Spark {version}")

    @staticmethod
    @contextlib.contextmanager
    def _cell(matrix: Matrix, feature: str, column: str) -> Iterator[Cell]:
        cell = matrix.setdefault(feature, {}).setdefault(column, Cell())
        try:
            yield cell
        except BaseException as error:
            cell.result = f"FAILED: {error}".splitlines()[0]
            raise

    def matrices(self) -> list[str]:
        """Returns the matrices as Markdown, each with a title line."""
        found = []
        for words, matrix in ((_FEATURES, self.cells), (_SPARK, self.sparks)):
            if matrix:
                found += [words, *_drawn(matrix), ""]
        return found

    @contextlib.contextmanager
    def row(self, part: Part, what: str, version: str) -> Iterator[Row]:
        """Records the duration of the block, and FAILED if it raises."""
        row = Row(part, what, version)
        self.rows.append(row)
        started = time.monotonic()
        try:
            yield row
        except BaseException:
            row.result = "FAILED"
            raise
        finally:
            row.seconds = time.monotonic() - started

    def lines(self) -> list[str]:
        """Returns the table as Markdown with aligned columns, readable in a terminal too."""
        order = list(Part)
        rows = sorted(self.rows, key=lambda row: order.index(row.part))
        return _aligned([_HEADINGS, *(row.cells() for row in rows)])

    def dump(self) -> dict[str, Any]:
        """Returns the content for `add`, JSON-serializable."""
        rows = [[row.part.value, row.what, row.version, row.result, row.seconds] for row in self.rows]
        return {"rows": rows, "cells": _results(self.cells), "sparks": _results(self.sparks)}

    def add(self, dumped: dict[str, Any]) -> None:
        """Adds the dumped results of another session."""
        for part, what, version, result, seconds in dumped["rows"]:
            self.rows.append(Row(Part(part), what, version, result, seconds))
        for name, matrix in (("cells", self.cells), ("sparks", self.sparks)):
            for feature, cells in dumped.get(name, {}).items():
                matrix.setdefault(feature, {}).update({column: Cell(result) for column, result in cells.items()})

    def page(self) -> str:
        """Returns the documentation page: the table with its explanations."""
        return _PAGE + "\n".join([*self.matrices(), *self.lines()]) + "\n"


def _drawn(matrix: Matrix) -> list[str]:
    columns = list(dict.fromkeys(column for cells in matrix.values() for column in cells))
    rows = [
        (feature, *(cells[column].result if column in cells else "not run" for column in columns))
        for feature, cells in matrix.items()
    ]
    return _aligned([("feature", *columns), *rows])


def _results(matrix: Matrix) -> dict[str, dict[str, str]]:
    return {name: {column: cell.result for column, cell in cells.items()} for name, cells in matrix.items()}


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = tuple("-" * width for width in widths)
    return [_line(row, widths) for row in (rows[0], rule, *rows[1:])]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell.replace("|", "\\|").ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
