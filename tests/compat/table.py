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

Written by `make compat`, which runs Apache's own brokers, clients and tools against our NameServer and brokers, and
moves store directories between Apache's brokers and ours. The column Apache is the version of clients and tools; the
servers of 4.9.8 are not on Maven, so those of 4.9.7 run instead.

For each mqadmin command, two brokers register with Apache's NameServer and with ours. The command runs on both, and the
outputs must be equal except for addresses, rates, ages and padding. _In another order_: Apache's NameServer returns
brokers and topics in the order of a hash map. _The FAQ link is that of 5.x_: the links at the end of error messages
changed between 4.9 and 5.x.

The commands of mqadmin 4.9.8 are compared in the same way on brokers: Apache's of 4.9.7 and 5.5.0, and two of ours,
each with its own NameServer of ours and a client that sends, consumes and leaves. Ours is configured like the version
it is compared with where a setting decides (`useServerSideResetOffset`). If the result is a reason, the rest of the
output was equal.

Our own mqadmin is compared with Java's of 4.9.8 on brokers of ours and of Apache: both tools run a command that reads
on the same cluster, and a command that writes on a cluster of their own. _Both fail_: Java prints a stack trace, ours
an error message; their codes were equal. Commands and flags of 5.x are compared with Java's tool of 5.5.0 (_our
mqadmin, 5.x_), and account commands with the tools of the release of the brokers (_our mqadmin, accounts_).

`make compat` writes both outputs unchanged to `artefacts/compat/mqadmin`, in folders by release of Java's tool, kind of
brokers and command, as `java.txt` and `kerolox.txt`.

A store directory that is moved has several files of each kind and messages of every kind: plain, in batches, compressed
with zlib, LZ4 and Zstandard, large, with several keys, delayed and with a timer (5.x), due and not yet due, of
transactions committed, rolled back and pending. Everything that a broker serves over the wire is compared byte by byte
with what ours reads from the files: every record of every queue, including system topics, by queue offset, by id and by
each of its keys.

"""

_FEATURES = """\
Features of clients with one NameServer and two brokers of ours; each cell was run and shows the observed result. _Not
in this client_: the client has no API for the feature.
"""

_SPARK = """\
Features of the data source and sink on each supported release of Spark, with a NameServer and a broker of ours.
_Refused: needs Spark 4.2_: the query does not start, and the error gives the reason.
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
    OUR_MQADMIN_5X = "our mqadmin, 5.x"
    OUR_MQADMIN_ACCESS = "our mqadmin, accounts"


@dataclass(slots=True)
class Row:
    """The result of one test; `result` may be refined while the test runs."""

    part: Part
    what: str
    version: str
    result: str = "passed"
    seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        return (self.part.value, self.what, self.version, self.result, f"{self.seconds:.1f}")


@dataclass(slots=True)
class Cell:
    """The result of a feature in a client; `result` may be refined while the test runs."""

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
        """Record the result of a feature with a client: FAILED and the reason if the block raises."""
        return self._cell(self.cells, feature, client)

    def spark_cell(self, feature: str, version: str) -> AbstractContextManager[Cell]:
        """Record the result of a feature with a release of Spark."""
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
        """Return the matrices as Markdown, each with a title line."""
        found = []
        for title, matrix in ((_FEATURES, self.cells), (_SPARK, self.sparks)):
            if matrix:
                found += [title, *_matrix_lines(matrix), ""]
        return found

    @contextlib.contextmanager
    def row(self, part: Part, what: str, version: str) -> Iterator[Row]:
        """Add a row: records the duration of the block, and FAILED if it raises."""
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
        """Return the table as Markdown with aligned columns, readable in a terminal too."""
        order = list(Part)
        rows = sorted(self.rows, key=lambda row: order.index(row.part))
        return _aligned([_HEADINGS, *(row.cells() for row in rows)])

    def dump(self) -> dict[str, Any]:
        """Return the content for `add`, JSON-serializable."""
        rows = [[row.part.value, row.what, row.version, row.result, row.seconds] for row in self.rows]
        return {"rows": rows, "cells": _results(self.cells), "sparks": _results(self.sparks)}

    def add(self, dumped: dict[str, Any]) -> None:
        """Add the dumped results of another session."""
        for part, what, version, result, seconds in dumped["rows"]:
            self.rows.append(Row(Part(part), what, version, result, seconds))
        for name, matrix in (("cells", self.cells), ("sparks", self.sparks)):
            for feature, cells in dumped.get(name, {}).items():
                matrix.setdefault(feature, {}).update({column: Cell(result) for column, result in cells.items()})

    def page(self) -> str:
        """Return the documentation page: the table with its explanations."""
        return _PAGE + "\n".join([*self.matrices(), *self.lines()]) + "\n"


def _matrix_lines(matrix: Matrix) -> list[str]:
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
