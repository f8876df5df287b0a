"""Pages of a metadata table, for tools and brokers of 5.x that request it in parts (enableSplitMetadata)."""

from typing import TypeVar

from kerolox.wire.bodies.topics import DataVersion

T = TypeVar("T")


def page(
    table: dict[str, T], version: DataVersion, asked: str | None, first: int | None, count: int | None, count_max: int
) -> dict[str, T]:
    """Return `count` items from the `first` on, in order of their names; the whole table if no argument is given.

    If the version that the client has seen (`asked`) is not `version`, its earlier pages are outdated, so it gets the
    first page.
    """
    if asked is None and first is None and count is None:
        return table
    is_same = asked is not None and bool(asked.strip()) and DataVersion.decode(asked.encode()) == version
    begin = max(first or 0, 0) if is_same else 0
    size = max(min(count_max if count is None else count, count_max), 0)
    return {name: table[name] for name in sorted(table)[begin : begin + size]}
