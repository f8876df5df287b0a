"""Filter pushdown: derives from Spark's filters which queues and offsets need not be read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.read.offset_json import Offsets, QueueRange
from kerolox.spark.read.requested_offsets import offsets_or_raise
from kerolox.wire.bodies.queues import MessageQueue

# Store times rise with offsets unless the broker's clock was set back; this much is tolerated.
_CLOCK_SLACK_MILLIS: Final = 60_000

# Lowest and highest value that may match, both inclusive; None: no bound.
Bounds = tuple[int | None, int | None]

_EXACT = ("topic", "brokerName", "queueId", "tags")


@dataclass(frozen=True)
class PushedFilters:
    """The values and ranges that may match; everything else need not be read."""

    values: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    offsets: Bounds = (None, None)
    millis: Bounds = (None, None)

    @property
    def tags(self) -> frozenset[str]:
        """The tags that may match; empty if they cannot be written as a subscription."""
        tags = self.values.get("tags", frozenset())
        is_expressible = all(tag and tag == tag.strip() and "|" not in tag and tag != "*" for tag in tags)
        return tags if is_expressible else frozenset()

    def narrow(self, cluster: ClusterMetadata, ranges: Sequence[QueueRange], ends: Offsets) -> list[QueueRange]:
        """Return the parts of the ranges that may contain matching messages."""
        chosen = [
            part
            for part in ranges
            if _may_match(self.values, "topic", part.topic)
            and _may_match(self.values, "brokerName", part.broker_name)
            and _may_match(self.values, "queueId", part.queue_id)
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
    def _at(cluster: ClusterMetadata, millis: int, queues: Iterable[MessageQueue], ends: Offsets) -> Offsets:
        return offsets_or_raise(cluster.offsets_at(dict.fromkeys(queues, max(millis, 0)), ends))


def pushed_filters(filters: Iterable[Any]) -> PushedFilters:
    """Convert a conjunction of Spark's filters; those that cannot be used are ignored."""
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
                bounds[column] = _intersection(bounds.get(column, (None, None)), _BOUNDS[kind](number))
    return PushedFilters(values, bounds.get("queueOffset", (None, None)), bounds.get("storeTimestamp", (None, None)))


# Bounds may be one too wide, since Spark applies the filters again.
_BOUNDS: Final[Mapping[str, Callable[[int], Bounds]]] = {
    "EqualTo": lambda number: (number, number),
    "GreaterThan": lambda number: (number, None),
    "GreaterThanOrEqual": lambda number: (number, None),
    "LessThan": lambda number: (None, number),
    "LessThanOrEqual": lambda number: (None, number),
}


def _parts(one: Any) -> tuple[str | None, str, Any]:
    """Return column, operator and value of a filter; the column is None for a nested field."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    column = attribute[0] if len(attribute) == 1 else None
    return column, type(one).__name__, getattr(one, "value", None)


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        # Spark passes times with or without a zone; one without is taken as UTC.
        return int((value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _intersection(one: Bounds, other: Bounds) -> Bounds:
    lows = [low for low, _ in (one, other) if low is not None]
    highs = [high for _, high in (one, other) if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _may_match(values: Mapping[str, frozenset[Any]], column: str, value: object) -> bool:
    return column not in values or value in values[column]
