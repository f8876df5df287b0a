"""What was tried against which version of Apache RocketMQ and what came of it, as one table."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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


class Part(Enum):
    """What a row is about, in the order in which the table shows it."""

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
    """One thing tried; `result` may be refined while it runs."""

    part: Part
    what: str
    version: str
    result: str = "as promised"
    seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        return (self.part.value, self.what, self.version, self.result, f"{self.seconds:.1f}")


@dataclass(slots=True)
class Cell:
    """What a client made of a feature; `result` may be refined while it runs."""

    result: str = "ok"


@dataclass(slots=True)
class Table:
    """The rows of a session, and what clients can do, one column for each."""

    rows: list[Row] = field(default_factory=list)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    @contextlib.contextmanager
    def cell(self, feature: str, client: str) -> Iterator[Cell]:
        """Records what a client makes of a feature, FAILED and why when it raises."""
        cell = self.cells.setdefault(feature, {}).setdefault(client, Cell())
        try:
            yield cell
        except BaseException as error:
            cell.result = f"FAILED: {error}".splitlines()[0]
            raise

    def matrix(self) -> list[str]:
        """Features and clients as markdown."""
        clients = list(dict.fromkeys(client for cells in self.cells.values() for client in cells))
        rows = [
            (feature, *(cells[client].result if client in cells else "not run" for client in clients))
            for feature, cells in self.cells.items()
        ]
        return _aligned([("feature", *clients), *rows])

    @contextlib.contextmanager
    def row(self, part: Part, what: str, version: str) -> Iterator[Row]:
        """Records what happens inside: its time, and FAILED when it raises."""
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
        """The table as markdown, its columns aligned so that a terminal can show it too."""
        order = list(Part)
        rows = sorted(self.rows, key=lambda row: order.index(row.part))
        return _aligned([_HEADINGS, *(row.cells() for row in rows)])

    def dump(self) -> dict[str, Any]:
        """What `add` takes in, as JSON can hold it."""
        rows = [[row.part.value, row.what, row.version, row.result, row.seconds] for row in self.rows]
        cells = {name: {client: cell.result for client, cell in cells.items()} for name, cells in self.cells.items()}
        return {"rows": rows, "cells": cells}

    def add(self, dumped: dict[str, Any]) -> None:
        """Takes in what another session has found."""
        for part, what, version, result, seconds in dumped["rows"]:
            self.rows.append(Row(Part(part), what, version, result, seconds))
        for feature, cells in dumped["cells"].items():
            self.cells.setdefault(feature, {}).update({client: Cell(result) for client, result in cells.items()})

    def page(self) -> str:
        """The table with what a reader of the documentation has to know about it."""
        features = [_FEATURES, *self.matrix(), ""] if self.cells else []
        return _PAGE + "\n".join([*features, *self.lines()]) + "\n"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = tuple("-" * width for width in widths)
    return [_line(row, widths) for row in (rows[0], rule, *rows[1:])]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell.replace("|", "\\|").ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
