"""Where queues begin and end now, and what keeps some of them from being read as far as they are to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerolox.errors import KeroloxError
from kerolox.spark.cluster import Cluster
from kerolox.spark.edges import queues_of
from kerolox.spark.offsets import Offsets, listed
from kerolox.spark.options import ReadOptions
from kerolox.wire.bodies.queues import MessageQueue


@dataclass(frozen=True)
class Bounds:
    """`begins` and `ends` have those queues that were answered for; the others, and the short ones, say why not."""

    begins: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    # Nobody answered for them, which says nothing about what they have.
    silent: Mapping[MessageQueue, KeroloxError] = field(default_factory=dict)
    # NameServers answered, and do not have them.
    unlisted: frozenset[MessageQueue] = frozenset()
    # They end before the offsets that they were asked for with.
    short: Mapping[MessageQueue, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return not (self.silent or self.unlisted or self.short)

    @property
    def silence(self) -> str:
        """Returns for people to read who did not answer."""
        reasons: dict[str, list[MessageQueue]] = {}
        for queue, error in self.silent.items():
            reasons.setdefault(str(error), []).append(queue)
        return "; ".join(f"nobody answers for {listed(queues)}: {reason}" for reason, queues in reasons.items())

    @property
    def loss(self) -> str:
        """Returns for people to read what is not there."""
        found = [f"nobody has {listed(self.unlisted)}"] if self.unlisted else []
        found += [
            f"{listed([queue])} ends at offset {self.ends[queue]}, and offset {least} was to be reached"
            for queue, least in sorted(self.short.items())
        ]
        return "; ".join(found)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.silence, self.loss)))


def bounds_of(cluster: Cluster, options: ReadOptions, least: Offsets) -> Bounds:
    """Asks about queues that are to reach at least these offsets."""
    try:
        listed_queues = queues_of(cluster, options)
    except KeroloxError as error:
        return Bounds(silent=dict.fromkeys(least, error))
    asked = listed_queues & set(least)
    begins, ends = cluster.begins(asked), cluster.ends(asked)
    known = begins.offsets.keys() & ends.offsets.keys()
    return Bounds(
        {queue: begins.offsets[queue] for queue in known},
        {queue: ends.offsets[queue] for queue in known},
        begins.failed | ends.failed,
        frozenset(set(least) - listed_queues),
        {queue: least[queue] for queue in known if ends.offsets[queue] < least[queue]},
    )
