"""What is in hand of a queue."""

import asyncio
from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kerolox.client.consumer.window import Window


@dataclass(frozen=True)
class Held:
    queue_offset: int
    body: bytes = b"12345"


def held(*offsets: int) -> list[Held]:
    return [Held(offset) for offset in offsets]


def window(*offsets: int) -> Window[Held]:
    filled: Window[Held] = Window()
    filled.put(held(*offsets))
    return filled


def offsets_of(messages: list[Held]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_where_to_go_on_is_the_first_that_is_not_done() -> None:
    filled = window(10, 11, 12)

    assert filled.remove(held(11)) == 10
    assert filled.remove(held(10)) == 12


def test_when_all_is_done_one_goes_on_after_the_last() -> None:
    filled = window(10, 11, 15)

    assert filled.remove(held(15, 10, 11)) == 16
    assert filled.count == 0
    assert filled.size == 0
    assert filled.span == 0


def test_before_anything_was_pulled_nothing_can_be_committed() -> None:
    assert window().committable is None


def test_what_is_in_hand_is_counted_in_messages_bytes_and_offsets() -> None:
    filled = window(10, 11, 40)

    assert (filled.count, filled.size, filled.span) == (3, 15, 30)
    assert (filled.first_offset, filled.last_offset) == (10, 40)


def test_what_is_in_hand_or_done_is_not_taken_twice() -> None:
    filled = window(10, 11, 12)
    filled.remove(held(10))

    assert filled.put(held(9, 10, 11, 12, 13)) == held(13)
    assert filled.count == 3


def test_what_was_passed_over_is_committed_with_what_came_before_it() -> None:
    filled = window(10, 11)

    filled.pass_to(15)

    assert filled.remove(held(10)) == 11
    assert filled.remove(held(11)) == 15


def test_what_was_let_go_once_does_not_count_twice() -> None:
    filled = window(10, 11)

    filled.remove(held(11))
    filled.remove(held(11))

    assert (filled.count, filled.size) == (1, 5)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_nothing_is_committed_that_is_not_done(steps: list[int], random: Random) -> None:
    offsets = [sum(steps[: index + 1]) for index in range(len(steps))]
    filled = window(*offsets)
    left = set(offsets)

    for offset in random.sample(offsets, len(offsets)):
        left.discard(offset)
        assert filled.remove(held(offset)) == (min(left) if left else offsets[-1] + 1)
        assert filled.count == len(left)


async def test_who_waits_for_room_goes_on_when_something_leaves() -> None:
    filled = window(10, 11)
    waiting = asyncio.create_task(filled.shrink())
    await asyncio.sleep(0)
    assert not waiting.done()

    filled.remove(held(11))

    await waiting


async def test_who_waits_for_room_goes_on_when_all_is_dropped() -> None:
    filled = window(10)
    waiting = asyncio.create_task(filled.shrink())
    await asyncio.sleep(0)

    filled.drop()

    await waiting
    await filled.shrink()
    assert filled.is_dropped


async def test_who_gives_up_waiting_does_not_end_it_for_others() -> None:
    filled = window(10, 11)
    first, second = asyncio.create_task(filled.shrink()), asyncio.create_task(filled.shrink())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)

    filled.remove(held(10))

    await second


# In order


def test_messages_are_taken_in_order_and_stay_in_hand_until_committed() -> None:
    filled = window(10, 11, 12)

    assert offsets_of(filled.take(2)) == [10, 11]
    assert (filled.count, filled.waiting_count, filled.committable) == (3, 1, 10)
    assert filled.commit() == 12
    assert (filled.count, filled.size) == (1, 5)


def test_what_is_given_back_comes_again_in_order() -> None:
    filled = window(10, 11, 12)
    filled.take(2)

    filled.give_back(2)

    assert offsets_of(filled.take(5)) == [10, 11, 12]


def test_several_batches_are_committed_together() -> None:
    filled = window(10, 11, 12, 13)
    filled.take(1)
    filled.take(2)

    assert offsets_of(list(filled.taken)) == [10, 11, 12]
    assert filled.commit() == 13


def test_the_first_of_what_was_taken_may_be_committed_alone() -> None:
    filled = window(10, 11, 12)
    filled.take(3)

    assert filled.commit(1) == 11
    filled.give_back()
    assert offsets_of(filled.take(3)) == [11, 12]


def test_only_the_last_batch_may_be_given_back() -> None:
    filled = window(10, 11, 12)
    filled.take(1)
    filled.take(2)

    filled.give_back(2)

    assert filled.commit() == 11


def test_all_that_was_taken_is_rolled_back_together() -> None:
    filled = window(10, 11, 12)
    filled.take(1)
    filled.take(1)

    filled.give_back()

    assert offsets_of(filled.take(3)) == [10, 11, 12]


def test_of_an_empty_window_nothing_is_taken() -> None:
    assert window().take(3) == []
    assert window().commit() is None
