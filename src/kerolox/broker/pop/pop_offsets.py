"""Pop offsets of groups: in memory at once, in the table of consumer offsets when their checkpoints are durable."""

import logging
from collections import deque
from collections.abc import Callable
from math import inf

from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.errors import SystemBusy

log = logging.getLogger(__name__)

# After this many pops the table is saved early, because a start after a crash reads the checkpoints of all pops since
# the table was saved, about 15 µs each.
_UNSAVED_MAX = 5_000

_Key = tuple[str, str, int]
# The first offset, and the one after the last.
Range = tuple[int, int]


class PopOffsets:
    """Commits an offset only when the checkpoint that precedes it in the log is durable.

    Otherwise a power cut could remove the checkpoint and leave the offset: the messages in between would neither be
    popped again nor revived, and be lost.
    """

    def __init__(
        self, offsets: ConsumerOffsets, durable_offset: Callable[[], int], *, unsaved_max: int = _UNSAVED_MAX
    ) -> None:
        self._offsets = offsets
        self._durable_offset = durable_offset
        self._unsaved_max = unsaved_max
        # Queue -> the next offset to pop, if it is not committed yet.
        self._uncommitted: dict[_Key, int] = {}
        # Commits that wait for durability, in log order: (end of the checkpoint, queue, offset, start of the
        # checkpoint).
        self._pending: deque[tuple[int, _Key, int, float]] = deque()
        self._unsaved = 0
        # Ranges above the committed offset that were popped before a crash, according to checkpoints in the log:
        # queue -> (next offset to pop, sorted ranges). Messages between the ranges were not popped.
        self._recovered: dict[_Key, tuple[int, deque[Range]]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset to pop; None if the group has never popped from this queue."""
        committed = self._offsets.get(group, topic, queue_id)
        uncommitted = self._uncommitted.get((group, topic, queue_id))
        if uncommitted is None or committed is None:
            return committed if uncommitted is None else uncommitted
        return max(uncommitted, committed)

    def advance(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        physical_offset: int,
        checkpoint_offset: float = inf,
    ) -> None:
        """Set the next offset to pop; commit it when the log is durable up to `physical_offset`.

        `checkpoint_offset` is the physical offset of its checkpoint, if there is one.
        """
        key = group, topic, queue_id
        self._uncommitted[key] = offset
        self._pending.append((physical_offset, key, offset, checkpoint_offset))
        self._unsaved += 1
        if self._unsaved == self._unsaved_max:
            self._offsets.file.save_soon()
        self.settle()

    def settle(self) -> None:
        """Commit the offsets whose checkpoints are durable."""
        durable = self._durable_offset()
        while self._pending and self._pending[0][0] <= durable:
            _, key, offset, _ = self._pending.popleft()
            if key not in self._uncommitted:
                # The offset was set, or the topic deleted, meanwhile.
                continue
            try:
                self._offsets.commit(*key, offset)
            except SystemBusy as error:
                # Only if the group was deleted meanwhile and the table is full: any other has an entry since its
                # first pop.
                log.warning("the offset of group %s in queue %d of %s is lost: %s", key[0], key[2], key[1], error)
            if self._uncommitted[key] == offset:
                del self._uncommitted[key]

    def set(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set and commit an offset, whatever was popped before."""
        self._uncommitted.pop((group, topic, queue_id), None)
        self._offsets.commit(group, topic, queue_id, offset)

    def delete_topic(self, topic: str) -> None:
        """Remove the offsets of a topic, so that a new one of the same name starts fresh."""
        self._delete(lambda key: key[1] == topic)

    def delete_group(self, group: str) -> None:
        """Remove the uncommitted offsets of a group; if the committed ones are kept, it pops from these on again."""
        self._delete(lambda key: key[0] == group)

    def _delete(self, is_deleted: Callable[[_Key], bool]) -> None:
        for table in (self._uncommitted, self._recovered):
            for key in list(filter(is_deleted, table)):
                del table[key]

    # Recovery after a crash

    def saved_position(self) -> float:
        """Return the physical offset of the first checkpoint that the table does not include.

        To be called when the table is saved: it restarts the count of unsaved pops.
        """
        self._unsaved = 0
        return min((start for _, key, _, start in self._pending if key in self._uncommitted), default=inf)

    def recover(self, group: str, topic: str, queue_id: int, popped: list[Range], first_offset: int) -> None:
        """Advance over the ranges that were popped, according to checkpoints, but not over a gap between them.

        Ranges above a gap are skipped later, when the group has popped the messages of the gap. `first_offset` is
        the minimum offset of the queue.
        """
        self._unsaved += len(popped)
        ranges = deque(_merged(popped))
        committed = self._offsets.get(group, topic, queue_id)
        offset = start = first_offset if committed is None else committed
        while ranges and ranges[0][0] <= offset:
            offset = max(offset, ranges.popleft()[1])
        if offset > start:
            self.set(group, topic, queue_id, offset)
        if ranges:
            self._recovered[group, topic, queue_id] = offset, ranges

    @property
    def has_recovered(self) -> bool:
        """Whether recovered ranges are still ahead of a group."""
        return bool(self._recovered)

    def first_recovered(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the first recovered offset of a queue; None if there is none."""
        recovered = self._recovered.get((group, topic, queue_id))
        return None if recovered is None else recovered[1][0][0]

    def pass_recovered(self, group: str, topic: str, queue_id: int, offset: int) -> tuple[int, int | None]:
        """Return the next offset from `offset` on that is in no recovered range, and the start of the next range."""
        key = group, topic, queue_id
        recovered = self._recovered.pop(key, None)
        if recovered is None or offset < recovered[0]:
            # The offset was reset to before the recovered ranges: the group shall get these messages again.
            return offset, None
        popped = recovered[1]
        while popped and popped[0][0] <= offset:
            offset = max(offset, popped.popleft()[1])
        if not popped:
            return offset, None
        self._recovered[key] = offset, popped
        return offset, popped[0][0]

    def forget_recovered(self, group: str, topic: str, queue_id: int) -> None:
        self._recovered.pop((group, topic, queue_id), None)


def _merged(ranges: list[Range]) -> list[Range]:
    """Return sorted ranges; those that touch or overlap are joined."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
