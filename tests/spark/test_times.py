"""Which message a time means, of queues of any shape and with any answer to begin with."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kerolox.spark.times import Stored, first_from


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60), st.integers(-1, 11), st.integers(-5, 80), st.data()
)
def test_the_first_at_a_time_or_later_is_found_from_wherever_the_search_begins(
    steps: list[int | None], millis: int, guess: int, data: st.DataObject
) -> None:
    """Times never go back; where there is None, a message is gone."""
    times: list[int | None] = []
    for step in steps:
        times.append(None if step is None else max([step, *(time for time in times if time is not None)]))
    begin = data.draw(st.integers(0, len(times)))
    looks = 0

    async def look(offset: int) -> Stored | None:
        nonlocal looks
        looks += 1
        assert begin <= offset < len(times)
        return next((Stored(at, time) for at in range(offset, len(times)) if (time := times[at]) is not None), None)

    found = asyncio.run(first_from(millis, guess, begin, len(times), look))

    later = [offset for offset in range(begin, len(times)) if (time := times[offset]) is not None and time >= millis]
    if later:
        assert found == later[0]
    else:
        # Nothing is there from what was found on.
        assert times[found:] == [None] * (len(times) - found)
    assert looks <= 14


async def test_an_answer_that_is_right_takes_two_looks_and_a_far_one_not_many() -> None:
    looks = []

    async def look(offset: int) -> Stored:
        looks.append(offset)
        return Stored(offset, offset)

    assert await first_from(5000, 5000, 0, 10**9, look) == 5000
    assert looks == [5000, 4999]
    assert await first_from(5000, 10**9, 0, 10**9, look) == 5000
    assert len(looks) < 70
