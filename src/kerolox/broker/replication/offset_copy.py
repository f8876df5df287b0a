"""Copies the consumer offsets of a master, without undoing commits that a slave got while the master was away."""

from collections.abc import Mapping

from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.wire.bodies.topics import DataVersion

Offsets = Mapping[str, Mapping[int, int]]

_NO_VERSION = DataVersion()


class OffsetCopy:
    """Applies an offset of the master only when the master has changed it since the last copy.

    While a master is away, consumers commit to its slaves. When it comes back with older offsets, Java's slaves take
    them over, and the group repeats messages after a failover (issue 1094). Here an offset that a slave has got from a
    consumer stays until the master's offset of that queue changes. If the versions tell that the master itself has lost
    its last changes, offsets are not set back.
    """

    def __init__(self, offsets: ConsumerOffsets) -> None:
        self._offsets = offsets
        # What the master had at the last copy.
        self._copied: dict[str, dict[int, int]] = {}
        self._version: DataVersion | None = None

    @property
    def version(self) -> DataVersion:
        """The version of the master's table that was copied last; of the saved table if none was."""
        return self._offsets.data_version if self._version is None else self._version

    def apply(self, table: Offsets, version: DataVersion, *, is_full: bool, pop_position: int | None = None) -> None:
        """Apply the whole table of the master, or its changes since the last copy."""
        is_older = version != _NO_VERSION and _order(version) < _order(self.version)
        changed: dict[str, dict[int, int]] = {}
        for key, master_offsets in table.items():
            copied, mine = self._copied.get(key, {}), self._offsets.table.get(key, {})
            wanted = {
                queue_id: offset
                for queue_id, offset in master_offsets.items()
                if copied.get(queue_id) != offset and not (is_older and mine.get(queue_id, -1) > offset)
            }
            if wanted:
                changed[key] = wanted
        deleted = [key for key in self._copied if key not in table] if is_full else []
        if is_full:
            self._copied = {key: dict(offsets) for key, offsets in table.items()}
        else:
            for key, master_offsets in table.items():
                self._copied.setdefault(key, {}).update(master_offsets)
        self._version = version
        if changed or deleted or version != self._offsets.data_version:
            self._offsets.take_over(changed, deleted, version, pop_position)


def _order(version: DataVersion) -> tuple[int, int, int]:
    return version.state_version, version.counter, version.timestamp
