"""Unconsumed messages of a queue."""

import asyncio
from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kerolox.client.consumer.fetch.process_queue import ProcessQueue


@dataclass(frozen=True)
class Held:
    queue_offset: int
    body: bytes = b"12345"


def held(*offsets: int) -> list[Held]:
    return [Held(offset) for offset in offsets]


def process_queue(*offsets: int) -> ProcessQueue[Held]:
    filled: ProcessQueue[Held] = ProcessQueue()
    filled.put(held(*offsets))
    return filled


def offsets_of(messages: list[Held]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_the_commit_offset_is_the_first_unconsumed_message() -> None:
    filled = process_queue(10, 11, 12)

    assert filled.remove(held(11)) == 10
    assert filled.remove(held(10)) == 12


def test_the_commit_offset_is_after_the_last_if_all_are_consumed() -> None:
    filled = process_queue(10, 11, 15)

    assert filled.remove(held(15, 10, 11)) == 16
    assert filled.count == 0
    assert filled.size == 0
    assert filled.span == 0


def test_there_is_no_commit_offset_before_the_first_pull() -> None:
    assert process_queue().commit_offset is None


def test_count_size_and_span_of_unconsumed_messages() -> None:
    filled = process_queue(10, 11, 40)

    assert (filled.count, filled.size, filled.span) == (3, 15, 30)
    assert (filled.first_offset, filled.last_offset) == (10, 40)


def test_put_ignores_messages_that_are_held_or_consumed() -> None:
    filled = process_queue(10, 11, 12)
    filled.remove(held(10))

    assert filled.put(held(9, 10, 11, 12, 13)) == held(13)
    assert filled.count == 3


def test_skipped_offsets_are_committed_with_those_before_them() -> None:
    filled = process_queue(10, 11)

    filled.advance_to(15)

    assert filled.remove(held(10)) == 11
    assert filled.remove(held(11)) == 15


def test_removing_a_message_twice_counts_once() -> None:
    filled = process_queue(10, 11)

    filled.remove(held(11))
    filled.remove(held(11))

    assert (filled.count, filled.size) == (1, 5)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_commit_offset_never_passes_an_unconsumed_message(steps: list[int], random: Random) -> None:
    offsets = [sum(steps[: index + 1]) for index in range(len(steps))]
    filled = process_queue(*offsets)
    left = set(offsets)

    for offset in random.sample(offsets, len(offsets)):
        left.discard(offset)
        assert filled.remove(held(offset)) == (min(left) if left else offsets[-1] + 1)
        assert filled.count == len(left)


async def test_wait_for_removal_returns_when_a_message_is_removed() -> None:
    filled = process_queue(10, 11)
    waiting = asyncio.create_task(filled.wait_for_removal())
    await asyncio.sleep(0)
    assert not waiting.done()

    filled.remove(held(11))

    await waiting


async def test_wait_for_removal_returns_when_the_queue_is_dropped() -> None:
    filled = process_queue(10)
    waiting = asyncio.create_task(filled.wait_for_removal())
    await asyncio.sleep(0)

    filled.drop()

    await waiting
    await filled.wait_for_removal()
    assert filled.is_dropped


async def test_cancelling_one_waiter_leaves_the_others_waiting() -> None:
    filled = process_queue(10, 11)
    first, second = asyncio.create_task(filled.wait_for_removal()), asyncio.create_task(filled.wait_for_removal())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)

    filled.remove(held(10))

    await second


# In order


def test_messages_are_taken_in_order_and_held_until_committed() -> None:
    filled = process_queue(10, 11, 12)

    assert offsets_of(filled.take(2)) == [10, 11]
    assert (filled.count, filled.waiting_count, filled.commit_offset) == (3, 1, 10)
    assert filled.commit() == 12
    assert (filled.count, filled.size) == (1, 5)


def test_returned_messages_are_taken_again_in_order() -> None:
    filled = process_queue(10, 11, 12)
    filled.take(2)

    filled.return_taken(2)

    assert offsets_of(filled.take(5)) == [10, 11, 12]


def test_several_batches_are_committed_together() -> None:
    filled = process_queue(10, 11, 12, 13)
    filled.take(1)
    filled.take(2)

    assert offsets_of(list(filled.taken)) == [10, 11, 12]
    assert filled.commit() == 13


def test_the_first_taken_message_can_be_committed_alone() -> None:
    filled = process_queue(10, 11, 12)
    filled.take(3)

    assert filled.commit(1) == 11
    filled.return_taken()
    assert offsets_of(filled.take(3)) == [11, 12]


def test_only_the_last_batch_can_be_returned() -> None:
    filled = process_queue(10, 11, 12)
    filled.take(1)
    filled.take(2)

    filled.return_taken(2)

    assert filled.commit() == 11


def test_all_taken_messages_can_be_returned_together() -> None:
    filled = process_queue(10, 11, 12)
    filled.take(1)
    filled.take(1)

    filled.return_taken()

    assert offsets_of(filled.take(3)) == [10, 11, 12]


def test_taking_from_an_empty_queue_returns_nothing() -> None:
    assert process_queue().take(3) == []
    assert process_queue().commit() is None
