"""The current min and max offsets of queues, and why some queues cannot be read to the wanted offset."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerolox.errors import KeroloxError
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import ReadOptions
from kerolox.spark.read.offset_json import Offsets, format_queues
from kerolox.spark.read.requested_offsets import readable_queues
from kerolox.wire.bodies.queues import MessageQueue


@dataclass(frozen=True)
class QueueBounds:
    """Min and max offsets of the queues whose broker responded, and the queues that are missing or too short."""

    begins: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    # Queues whose broker did not respond, so nothing is known about them.
    unreachable: Mapping[MessageQueue, KeroloxError] = field(default_factory=dict)
    # Queues that no NameServer lists.
    unlisted: frozenset[MessageQueue] = frozenset()
    # Wanted offsets of queues that end before them.
    short: Mapping[MessageQueue, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return not (self.unreachable or self.unlisted or self.short)

    @property
    def unreachable_text(self) -> str:
        """The unreachable queues and their errors, for messages."""
        reasons: dict[str, list[MessageQueue]] = {}
        for queue, error in self.unreachable.items():
            reasons.setdefault(str(error), []).append(queue)
        return "; ".join(f"no response for {format_queues(queues)}: {reason}" for reason, queues in reasons.items())

    @property
    def loss_text(self) -> str:
        """The missing and too short queues, for messages."""
        found = [f"no NameServer lists {format_queues(self.unlisted)}"] if self.unlisted else []
        found += [
            f"{format_queues([queue])} ends at offset {self.ends[queue]}, before the wanted offset {least}"
            for queue, least in sorted(self.short.items())
        ]
        return "; ".join(found)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.unreachable_text, self.loss_text)))


def query_bounds(cluster: ClusterMetadata, options: ReadOptions, least: Offsets) -> QueueBounds:
    """Query the bounds of queues that should reach at least these offsets."""
    try:
        listed_queues = readable_queues(cluster, options)
    except KeroloxError as error:
        return QueueBounds(unreachable=dict.fromkeys(least, error))
    asked = listed_queues & set(least)
    begins, ends = cluster.min_offsets(asked), cluster.max_offsets(asked)
    known = begins.offsets.keys() & ends.offsets.keys()
    return QueueBounds(
        {queue: begins.offsets[queue] for queue in known},
        {queue: ends.offsets[queue] for queue in known},
        begins.failed | ends.failed,
        frozenset(set(least) - listed_queues),
        {queue: least[queue] for queue in known if ends.offsets[queue] < least[queue]},
    )
