"""Which message a time means, whatever a broker says about that.

Brokers of 4.x name the nearest message, any of several with the same time, or the last one for a time after all of
them; those of 5.x, and ours, the first that was stored then or later. So an answer is only where to look first.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class Stored(NamedTuple):
    """A message, and when it was stored."""

    queue_offset: int
    millis: int


# Returns the message at an offset, or the first that is there after it; None if there is none.
Look = Callable[[int], Awaitable[Stored | None]]


async def first_from(millis: int, guess: int, begin: int, end: int, look: Look) -> int:
    """Returns the offset of the first message from `begin` on that was stored at a time or later; `end` if none was.

    It takes two looks if the guess is right, and else about as many as the distance has binary digits, twice. Where
    the clock was set back in between, the answer is one of several that would be right.
    """
    found: dict[int, Stored] = {}

    async def has_come(queue_offset: int) -> bool:
        stored = await look(queue_offset)
        if stored is None:
            # Who begins too early misses nothing.
            return True
        found[queue_offset] = stored
        return stored.millis >= millis

    # All before `low` are earlier, and at `high` it has come.
    low, high = begin, end
    at, step = min(max(guess, begin), end), 1
    if at < end and not await has_come(at):
        low = at + 1
        while low < high:
            at = min(low + step - 1, end - 1)
            if await has_come(at):
                high = at
                break
            low, step = at + 1, step * 2
    else:
        high = at
        while low < high:
            at = max(high - step, begin)
            if not await has_come(at):
                low = at + 1
                break
            high, step = at, step * 2
    while low < high:
        middle = (low + high) // 2
        if await has_come(middle):
            high = middle
        else:
            low = middle + 1
    # Those that are not there any more count as the one that follows them.
    return min(found[low].queue_offset, end) if low in found and low < end else low
