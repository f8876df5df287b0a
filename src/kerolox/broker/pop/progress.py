"""How far groups have popped: at once in memory, and in the table of offsets when the checkpoints are durable."""

import logging
from collections import deque
from collections.abc import Callable

from kerolox.broker.offsets import ConsumerOffsets
from kerolox.errors import SystemBusy

log = logging.getLogger(__name__)

_Key = tuple[str, str, int]


class Progress:
    """Commits nothing that rests on a record of the log which a power cut could still take back.

    Otherwise the table could say that messages were popped of which no checkpoint tells: they would be lost.
    """

    def __init__(self, offsets: ConsumerOffsets, durable_offset: Callable[[], int]) -> None:
        self._offsets = offsets
        self._durable_offset = durable_offset
        # Of each queue how far, while that is not committed; and what is to be committed, in the order of the log.
        self._ahead: dict[_Key, int] = {}
        self._pending: deque[tuple[int, _Key, int]] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns the next offset to be popped; None if the group was never here."""
        committed = self._offsets.get(group, topic, queue_id)
        ahead = self._ahead.get((group, topic, queue_id))
        if ahead is None or committed is None:
            return committed if ahead is None else ahead
        return max(ahead, committed)

    def advance(self, group: str, topic: str, queue_id: int, offset: int, physical_offset: int) -> None:
        """Notes the next offset; it is committed when the log is durable up to `physical_offset`."""
        key = group, topic, queue_id
        self._ahead[key] = offset
        self._pending.append((physical_offset, key, offset))
        self.settle()

    def settle(self) -> None:
        """Commits what can be."""
        durable = self._durable_offset()
        while self._pending and self._pending[0][0] <= durable:
            _, key, offset = self._pending.popleft()
            if key not in self._ahead:
                # It was set to another offset meanwhile.
                continue
            try:
                self._offsets.commit(*key, offset)
            except SystemBusy as error:
                # Only of what was deleted meanwhile: of all else there is an offset since it was first popped.
                log.warning("group %s begins anew in queue %d of %s: %s", key[0], key[2], key[1], error)
            if self._ahead[key] == offset:
                del self._ahead[key]

    def set(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Goes to an offset, whatever was popped before."""
        self._ahead.pop((group, topic, queue_id), None)
        self._offsets.commit(group, topic, queue_id, offset)
