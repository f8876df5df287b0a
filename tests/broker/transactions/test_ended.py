"""Which half messages have ended, and which ops are done with."""

import random

from kerolox.broker.transactions.ended import Ended, OpProgress


def test_what_is_marked_has_ended_and_nothing_else() -> None:
    chooser = random.Random(7)
    ended, marked, cursor = Ended(), set[int](), 1003
    ended.start(cursor)
    for _ in range(50):
        for _ in range(50):
            offset = cursor + chooser.randrange(-20, 5000)
            ended.mark(offset)
            if offset >= cursor:
                marked.add(offset)
        cursor += chooser.choice((0, 1, 7, 8, 300, 6000))
        ended.advance(cursor)
        marked = {offset for offset in marked if offset >= cursor}
        seen = {offset for offset in range(cursor, cursor + 6000) if offset in ended}
        assert seen == marked


def test_bits_that_are_behind_are_let_go() -> None:
    ended = Ended()
    for offset in range(0, 10_000_000, 1000):
        ended.mark(offset + 5000)
        ended.advance(offset)

    assert len(ended._bits) < 70_000


def test_an_op_is_done_with_when_the_last_that_it_names_is_behind() -> None:
    ops = OpProgress(10)
    for offset, last in ((10, 5), (11, 3), (12, 9), (13, -1)):
        ops.read(offset, last)

    assert ops.next_offset == 14
    assert [ops.settle(cursor) for cursor in (4, 5, 6, 9, 10)] == [10, 10, 12, 12, 14]


def test_ops_that_are_not_there_are_done_with() -> None:
    ops = OpProgress(0)
    ops.read(3, 8)
    ops.skip(6)
    ops.skip(2)

    assert ops.next_offset == 6
    assert [ops.settle(8), ops.settle(9)] == [3, 6]


def test_progress_of_many_ops_is_kept_exactly() -> None:
    ops = OpProgress(0)
    for offset in range(50_000):
        ops.read(offset, offset * 2)
        if offset % 7 == 0:
            assert ops.settle(offset) == (offset + 1) // 2
    assert ops.next_offset == 50_000
