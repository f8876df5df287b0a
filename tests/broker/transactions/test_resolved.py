"""The bit map of resolved half messages, and the progress in the op queue."""

import random

from kerolox.broker.transactions.resolved import OpProgress, ResolvedHalves


def test_only_marked_half_messages_are_resolved() -> None:
    chooser = random.Random(7)
    resolved, marked, cursor = ResolvedHalves(), set[int](), 1003
    resolved.start(cursor)
    for _ in range(50):
        for _ in range(50):
            offset = cursor + chooser.randrange(-20, 5000)
            resolved.mark(offset)
            if offset >= cursor:
                marked.add(offset)
        cursor += chooser.choice((0, 1, 7, 8, 300, 6000))
        resolved.advance(cursor)
        marked = {offset for offset in marked if offset >= cursor}
        seen = {offset for offset in range(cursor, cursor + 6000) if offset in resolved}
        assert seen == marked


def test_bits_before_the_cursor_are_freed() -> None:
    resolved = ResolvedHalves()
    for offset in range(0, 10_000_000, 1000):
        resolved.mark(offset + 5000)
        resolved.advance(offset)

    assert len(resolved._bits) < 70_000


def test_an_op_is_done_when_its_last_half_message_is_passed() -> None:
    ops = OpProgress(10)
    for offset, last in ((10, 5), (11, 3), (12, 9), (13, -1)):
        ops.read(offset, last)

    assert ops.next_offset == 14
    assert [ops.settle(cursor) for cursor in (4, 5, 6, 9, 10)] == [10, 10, 12, 12, 14]


def test_missing_ops_count_as_done() -> None:
    ops = OpProgress(0)
    ops.read(3, 8)
    ops.skip(6)
    ops.skip(2)

    assert ops.next_offset == 6
    assert [ops.settle(8), ops.settle(9)] == [3, 6]


def test_progress_over_many_ops_is_exact() -> None:
    ops = OpProgress(0)
    for offset in range(50_000):
        ops.read(offset, offset * 2)
        if offset % 7 == 0:
            assert ops.settle(offset) == (offset + 1) // 2
    assert ops.next_offset == 50_000
