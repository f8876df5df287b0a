"""Filters that Spark hands to a source, as far as they say which queues and offsets need not be read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kerolox.spark.cluster import Cluster
from kerolox.spark.edges import all_of
from kerolox.spark.offsets import Offsets, QueueRange
from kerolox.wire.bodies.queues import MessageQueue

# Messages lie in the order of their times as far as the broker's clock never went back; so much it may have.
_CLOCK_SLACK_MILLIS: Final = 60_000

# Lowest and highest value that may pass, both included.
Bounds = tuple[int | None, int | None]

_EXACT = ("topic", "brokerName", "queueId", "tags")


@dataclass(frozen=True)
class Narrowing:
    """What may be left out, because the filters would refuse it."""

    values: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    offsets: Bounds = (None, None)
    millis: Bounds = (None, None)

    @property
    def tags(self) -> frozenset[str]:
        """Tags of which a message must have one; empty if others may pass, too."""
        tags = self.values.get("tags", frozenset())
        is_sayable = all(tag and tag == tag.strip() and "|" not in tag and tag != "*" for tag in tags)
        return tags if is_sayable else frozenset()

    def applied(self, cluster: Cluster, ranges: Sequence[QueueRange], ends: Offsets) -> list[QueueRange]:
        """Returns the parts of ranges that may hold what passes."""
        chosen = [
            part
            for part in ranges
            if _passes(self.values, "topic", part.topic)
            and _passes(self.values, "brokerName", part.broker_name)
            and _passes(self.values, "queueId", part.queue_id)
        ]
        low, high = self.offsets
        starts = {part.queue: part.start if low is None else max(part.start, low) for part in chosen}
        stops = {part.queue: part.end if high is None else min(part.end, high + 1) for part in chosen}
        earliest, latest = self.millis
        if earliest is not None:
            for queue, offset in self._at(cluster, earliest - _CLOCK_SLACK_MILLIS, starts, ends).items():
                starts[queue] = max(starts[queue], offset)
        if latest is not None:
            for queue, offset in self._at(cluster, latest + _CLOCK_SLACK_MILLIS + 1, starts, ends).items():
                stops[queue] = min(stops[queue], offset)
        narrowed = [part._replace(start=starts[part.queue], end=stops[part.queue]) for part in chosen]
        return [part for part in narrowed if part.length > 0]

    @staticmethod
    def _at(cluster: Cluster, millis: int, queues: Iterable[MessageQueue], ends: Offsets) -> Offsets:
        return all_of(cluster.at(dict.fromkeys(queues, max(millis, 0)), ends))


def narrowing_of(filters: Iterable[Any]) -> Narrowing:
    """Returns what these filters, all of which must pass, say; those that say nothing here are passed over."""
    values: dict[str, frozenset[Any]] = {}
    bounds: dict[str, Bounds] = {}
    for one in filters:
        column, kind, value = _parts(one)
        if column in _EXACT and kind in ("EqualTo", "In"):
            allowed = frozenset(value if kind == "In" else (value,)) - {None}
            values[column] = values.get(column, allowed) & allowed
        elif column in ("queueOffset", "storeTimestamp"):
            number = _number(value)
            if number is not None and kind in _BOUNDS:
                bounds[column] = _both(bounds.get(column, (None, None)), _BOUNDS[kind](number))
    return Narrowing(values, bounds.get("queueOffset", (None, None)), bounds.get("storeTimestamp", (None, None)))


# A bound may be one too wide, since all is judged again.
_BOUNDS: Final[Mapping[str, Callable[[int], Bounds]]] = {
    "EqualTo": lambda number: (number, number),
    "GreaterThan": lambda number: (number, None),
    "GreaterThanOrEqual": lambda number: (number, None),
    "LessThan": lambda number: (None, number),
    "LessThanOrEqual": lambda number: (None, number),
}


def _parts(one: Any) -> tuple[str | None, str, Any]:
    """Returns the column of a filter, what it is, and with which value; no column if it is about part of one."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    column = attribute[0] if len(attribute) == 1 else None
    return column, type(one).__name__, getattr(one, "value", None)


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        # Spark hands over times of its own zone without saying so, or with one.
        return int((value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _both(one: Bounds, other: Bounds) -> Bounds:
    lows = [low for low, _ in (one, other) if low is not None]
    highs = [high for _, high in (one, other) if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _passes(values: Mapping[str, frozenset[Any]], column: str, value: object) -> bool:
    return column not in values or value in values[column]
