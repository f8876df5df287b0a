"""Finds the first message stored at a time or later, independent of the broker's version.

Brokers of 4.x return the nearest message, any of several with the same time, or the last one for a time after all of
them; those of 5.x, and ours, the first that was stored then or later. So the response is only a first guess.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class StoredMessage(NamedTuple):
    """The offset of a message, and its store time."""

    queue_offset: int
    millis: int


# Returns the message at an offset, or the first existing one after it; None if there is none.
LookUp = Callable[[int], Awaitable[StoredMessage | None]]


async def find_first_offset(millis: int, guess: int, begin: int, end: int, look_up: LookUp) -> int:
    """Return the first offset from `begin` on that was stored at `millis` or later; `end` if there is none.

    It takes two lookups if the guess is right, else about 2 * log2(distance). If the broker's clock was set back in
    between, several offsets qualify and any of them may be returned.
    """
    found: dict[int, StoredMessage] = {}

    async def is_at_or_after(queue_offset: int) -> bool:
        stored = await look_up(queue_offset)
        if stored is None:
            # Unknown counts as reached: starting too early misses nothing.
            return True
        found[queue_offset] = stored
        return stored.millis >= millis

    # Invariant: all offsets before `low` are earlier than `millis`; `high` is not.
    low, high = begin, end
    at, step = min(max(guess, begin), end), 1
    if at < end and not await is_at_or_after(at):
        low = at + 1
        while low < high:
            at = min(low + step - 1, end - 1)
            if await is_at_or_after(at):
                high = at
                break
            low, step = at + 1, step * 2
    else:
        high = at
        while low < high:
            at = max(high - step, begin)
            if not await is_at_or_after(at):
                low = at + 1
                break
            high, step = at, step * 2
    while low < high:
        middle = (low + high) // 2
        if await is_at_or_after(middle):
            high = middle
        else:
            low = middle + 1
    # A deleted message counts as the first one after it.
    return min(found[low].queue_offset, end) if low in found and low < end else low
