"""A part of a table, for tools and brokers of 5.x that ask for it in pieces."""

from typing import TypeVar

from kerolox.wire.bodies.topics import DataVersion

T = TypeVar("T")


def page(
    table: dict[str, T], version: DataVersion, asked: str | None, first: int | None, count: int | None, count_max: int
) -> dict[str, T]:
    """Returns `count` items in the order of their names from the `first` on; all if nothing is said.

    Who asks with another version than `version` of the table is given its beginning: what it had is no longer true.
    """
    if asked is None and first is None and count is None:
        return table
    is_same = asked is not None and bool(asked.strip()) and DataVersion.decode(asked.encode()) == version
    begin = max(first or 0, 0) if is_same else 0
    size = max(min(count_max if count is None else count, count_max), 0)
    return {name: table[name] for name in sorted(table)[begin : begin + size]}
