"""Lookup of the first message at a time, in any queue and with any first guess."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kerolox.spark.read.timestamp_lookup import StoredMessage, find_first_offset


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60), st.integers(-1, 11), st.integers(-5, 80), st.data()
)
def test_the_first_message_at_a_time_or_later_is_found_from_any_guess(
    steps: list[int | None], millis: int, guess: int, data: st.DataObject
) -> None:
    """Store times are ascending; None is a deleted message."""
    times: list[int | None] = []
    for step in steps:
        times.append(None if step is None else max([step, *(time for time in times if time is not None)]))
    begin = data.draw(st.integers(0, len(times)))
    lookups = 0

    async def look(offset: int) -> StoredMessage | None:
        nonlocal lookups
        lookups += 1
        assert begin <= offset < len(times)
        return next(
            (StoredMessage(at, time) for at in range(offset, len(times)) if (time := times[at]) is not None), None
        )

    found = asyncio.run(find_first_offset(millis, guess, begin, len(times), look))

    later = [offset for offset in range(begin, len(times)) if (time := times[offset]) is not None and time >= millis]
    if later:
        assert found == later[0]
    else:
        # No message exists from the result on.
        assert times[found:] == [None] * (len(times) - found)
    assert lookups <= 14


async def test_a_right_guess_takes_two_lookups_and_a_far_one_few() -> None:
    lookups = []

    async def look(offset: int) -> StoredMessage:
        lookups.append(offset)
        return StoredMessage(offset, offset)

    assert await find_first_offset(5000, 5000, 0, 10**9, look) == 5000
    assert lookups == [5000, 4999]
    assert await find_first_offset(5000, 10**9, 0, 10**9, look) == 5000
    assert len(lookups) < 70
