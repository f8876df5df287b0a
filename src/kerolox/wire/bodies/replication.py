"""Bodies of requests between the brokers of a group."""

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.integers import Int32, Int64

Offsets = dict[str, dict[Int32, Int64]]


class MetadataQuery(Body, kw_only=True):
    """Tells which metadata a slave has, so that the response contains only changes."""

    # The master whose versions these are; a master that was restarted counts as another.
    master_start: str = ""
    # The version of the consumer offsets that the slave has; None if it does not want offsets now.
    offsets_version: DataVersion | None = None
    deletions_version: str = ""


class MetadataChanges(Body, kw_only=True):
    """The versions of a master's tables, and the changes of those that change often."""

    master_start: str
    # The end of the master's log. Offsets below must not be used by a slave whose log is shorter.
    log_end_offset: Int64
    topics_version: DataVersion
    groups_version: DataVersion
    modes_version: str
    timer_version: str
    # Delay level → next queue offset to deliver.
    delay_offsets: dict[Int32, Int64]

    # Consumer offsets that have changed; None if there are too many, or deletions among them: then the slave requests
    # the whole table.
    offsets: Offsets | None = None
    offsets_version: DataVersion = msgspec.field(default_factory=DataVersion)
    # The physical offset of the log before which the offsets include all pops.
    pop_position: Int64 | None = None

    # Deleted topic → end of the log when it was deleted; None if the slave has this version.
    deleted_topics: dict[str, Int64] | None = None
    deletions_version: str = ""
