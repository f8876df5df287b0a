"""A limit on the bytes of incomplete frames that all connections of a process hold together."""

from collections.abc import Callable
from typing import Protocol

# Once over the limit, 1/16 of it is freed in addition. Finding the largest frames looks at all connections, which must
# not happen at every read while a peer keeps the total at the limit.
_FREED_PART = 16


class Holder(Protocol):
    """A connection with an incomplete frame."""

    remote: str

    def abort(self) -> None:
        """Closes the connection at once, and updates its count to 0."""


class PartialFrames:
    """Counts the bytes of incomplete frames as they arrive; above the limit, the largest are closed at once."""

    def __init__(self, size_max: int, on_closed: Callable[[Holder, int], None]) -> None:
        self.size_max = size_max
        self.size = 0
        self._on_closed = on_closed
        self._sizes: dict[Holder, int] = {}

    def update(self, holder: Holder, size: int) -> None:
        """Sets the number of bytes that `holder` has of an incomplete frame."""
        self.size += size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
            if self.size > self.size_max:
                self._close_largest()

    def _close_largest(self) -> None:
        for holder in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            self._on_closed(holder, self.size)
            holder.abort()
            if self.size <= self.size_max - self.size_max // _FREED_PART:
                return
