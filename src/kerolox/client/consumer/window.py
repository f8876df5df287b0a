"""What is in hand of one queue: pulled and not yet consumed. It decides what may be committed, and what is pulled."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar


class Held(Protocol):
    """What a window needs to know of a message."""

    @property
    def queue_offset(self) -> int: ...

    @property
    def body(self) -> bytes: ...


M = TypeVar("M", bound=Held)


class Window(Generic[M]):
    """Messages in the order of their offsets; they leave in any order, and the first still there is where to go on.

    Concurrent consumers `put` and `remove`. Orderly ones `take`, and then `commit` what was taken or `give_back`.
    """

    __slots__ = ("_free", "_held", "_next", "_offsets", "_sizes", "_taken", "is_dropped", "size")

    def __init__(self) -> None:
        # Its queue belongs to another member, or is read from elsewhere: nothing of this may be committed any more.
        self.is_dropped = False
        # Bytes of the bodies in hand.
        self.size = 0
        self._held: dict[int, M] = {}
        self._sizes: dict[int, int] = {}
        # All offsets in order; those that are done leave when they come to the front.
        self._offsets: deque[int] = deque()
        self._next: int | None = None
        self._taken: list[M] = []
        self._free: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def span(self) -> int:
        """How far the last message in hand lies from the first: one that does not end holds up all after it."""
        offsets = self._offsets
        return offsets[-1] - offsets[0] if offsets else 0

    @property
    def first_offset(self) -> int | None:
        return self._offsets[0] if self._offsets else None

    @property
    def last_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def committable(self) -> int | None:
        """Where to go on if all stopped now: at the first in hand, or after all that came; None before anything did."""
        return self._offsets[0] if self._offsets else self._next

    def put(self, messages: Sequence[M]) -> Sequence[M]:
        """Takes what was pulled, in order; returns what was not in hand already, or done."""
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

    def pass_to(self, offset: int) -> None:
        """Notes that nothing else before `offset` will come: the rest was not wanted."""
        if self._next is None or offset > self._next:
            self._next = offset

    def remove(self, messages: Iterable[M]) -> int | None:
        """Lets go of what was consumed; returns where to go on."""
        held, sizes = self._held, self._sizes
        for message in messages:
            offset = message.queue_offset
            if held.pop(offset, None) is not None:
                self.size -= sizes.pop(offset)
        offsets = self._offsets
        while offsets and offsets[0] not in held:
            offsets.popleft()
        if self._free is not None and not self._free.done():
            self._free.set_result(None)
        return self.committable

    def drop(self) -> None:
        """Makes all that is in hand count for nothing."""
        self.is_dropped = True
        if self._free is not None and not self._free.done():
            self._free.set_result(None)

    async def shrink(self) -> None:
        """Waits until something has left, or all is dropped."""
        if self.is_dropped:
            return
        if self._free is None or self._free.done():
            self._free = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._free)

    # In order

    @property
    def taken(self) -> Sequence[M]:
        """What was taken and neither committed nor given back."""
        return self._taken

    @property
    def waiting_count(self) -> int:
        """How many could be taken."""
        return len(self._held) - len(self._taken)

    def take(self, count: int) -> list[M]:
        """Returns the next messages in order; they stay in hand, after those that were taken before."""
        start = len(self._taken)
        batch = [self._held[self._offsets[index]] for index in range(start, min(start + count, len(self._offsets)))]
        self._taken += batch
        return batch

    def commit(self, count: int | None = None) -> int | None:
        """Lets go of the first `count` that were taken, or all; returns where to go on."""
        if count is None:
            done, self._taken = self._taken, []
        else:
            done, self._taken = self._taken[:count], self._taken[count:]
        return self.remove(done)

    def give_back(self, count: int | None = None) -> None:
        """Has the last `count` that were taken, or all, come again."""
        if count is None:
            self._taken.clear()
        elif count:
            del self._taken[-count:]
