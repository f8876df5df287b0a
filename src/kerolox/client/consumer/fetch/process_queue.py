"""The pulled and not yet consumed messages of one queue, which determine the commit offset (ProcessQueue)."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from kerolox.runtime.clock import SystemClock

_SYSTEM_MILLIS = SystemClock().millis


class HeldMessage(Protocol):
    """The attributes of a message that a ProcessQueue uses."""

    @property
    def queue_offset(self) -> int: ...

    @property
    def body(self) -> bytes: ...


M = TypeVar("M", bound=HeldMessage)


class ProcessQueue(Generic[M]):
    """Messages ordered by offset, which may be removed in any order. The first one left is the commit offset.

    Concurrent consumers `put` and `remove`. Orderly ones `take`, and then `commit` the taken messages or
    `return_taken` them.
    """

    __slots__ = (
        "_held",
        "_millis",
        "_next",
        "_offsets",
        "_removal",
        "_sizes",
        "_taken",
        "is_dropped",
        "last_consume_millis",
        "size",
    )

    def __init__(self, millis: Callable[[], int] = _SYSTEM_MILLIS) -> None:
        self._millis = millis
        # When messages were last removed or taken; initially the creation time, as in Java.
        self.last_consume_millis = millis()
        # The queue has been assigned to another member, or is read from another offset: nothing may be committed.
        self.is_dropped = False
        # Bytes of all bodies.
        self.size = 0
        self._held: dict[int, M] = {}
        self._sizes: dict[int, int] = {}
        # All offsets in order; consumed ones are removed when they reach the front.
        self._offsets: deque[int] = deque()
        # The offset after the last one that was pulled or skipped.
        self._next: int | None = None
        self._taken: list[M] = []
        self._removal: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def span(self) -> int:
        """The distance of the last offset from the first. One slow message blocks the commit of all after it."""
        offsets = self._offsets
        return offsets[-1] - offsets[0] if offsets else 0

    @property
    def first_offset(self) -> int | None:
        return self._offsets[0] if self._offsets else None

    @property
    def last_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def commit_offset(self) -> int | None:
        """The offset to commit: of the first message, or after the last pulled one; None before the first pull."""
        return self._offsets[0] if self._offsets else self._next

    def put(self, messages: Sequence[M]) -> Sequence[M]:
        """Add pulled messages, which are in order; return those that are new, not held or consumed already."""
        if messages and self._next is not None and messages[0].queue_offset < self._next:
            messages = [message for message in messages if message.queue_offset >= self._next]
        if not messages:
            return messages
        size = 0
        for message in messages:
            offset = message.queue_offset
            self._held[offset] = message
            self._offsets.append(offset)
            self._sizes[offset] = length = len(message.body)
            size += length
        self.size += size
        self._next = messages[-1].queue_offset + 1
        return messages

    def advance_to(self, offset: int) -> None:
        """Record that no more messages before `offset` will be put: the others were filtered out."""
        if self._next is None or offset > self._next:
            self._next = offset

    def remove(self, messages: Iterable[M]) -> int | None:
        """Remove consumed messages; return the commit offset."""
        self.last_consume_millis = self._millis()
        return self._remove(messages)

    def _remove(self, messages: Iterable[M]) -> int | None:
        held, sizes = self._held, self._sizes
        for message in messages:
            offset = message.queue_offset
            if held.pop(offset, None) is not None:
                self.size -= sizes.pop(offset)
        offsets = self._offsets
        while offsets and offsets[0] not in held:
            offsets.popleft()
        if self._removal is not None and not self._removal.done():
            self._removal.set_result(None)
        return self.commit_offset

    def drop(self) -> None:
        """Mark the queue as dropped: its messages must not be committed any more."""
        self.is_dropped = True
        if self._removal is not None and not self._removal.done():
            self._removal.set_result(None)

    async def wait_for_removal(self) -> None:
        """Wait until messages have been removed, or the queue has been dropped."""
        if self.is_dropped:
            return
        if self._removal is None or self._removal.done():
            self._removal = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._removal)

    # For orderly and pull consumers

    @property
    def taken(self) -> Sequence[M]:
        """The messages that were taken and neither committed nor returned."""
        return self._taken

    @property
    def waiting_count(self) -> int:
        """The number of messages that can be taken."""
        return len(self._held) - len(self._taken)

    def take(self, count: int) -> list[M]:
        """Return the next messages in order, and mark them as taken."""
        self.last_consume_millis = self._millis()
        start = len(self._taken)
        batch = [self._held[self._offsets[index]] for index in range(start, min(start + count, len(self._offsets)))]
        self._taken += batch
        return batch

    def commit(self, count: int | None = None) -> int | None:
        """Remove the first `count` taken messages, by default all; return the commit offset."""
        if count is None:
            done, self._taken = self._taken, []
        else:
            done, self._taken = self._taken[:count], self._taken[count:]
        return self._remove(done)

    def return_taken(self, count: int | None = None) -> None:
        """Make the last `count` taken messages, by default all, available again."""
        if count is None:
            self._taken.clear()
        elif count:
            del self._taken[-count:]
