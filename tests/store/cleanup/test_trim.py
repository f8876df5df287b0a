"""Trimming queues and index after files of the log were deleted; a failing queue does not stop the others."""

import asyncio
import errno

import pytest

from tests.store.cleanup.test_retention import QUEUE, fixture_with_still_clock
from tests.store.stores import draft, opened, put, run, without_threads


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def test_an_unreadable_queue_does_not_stop_the_others() -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0)
    for topic in ("a", "b", "c"):
        put(fixture.store, draft(b"x", topic))
    fixture.fill(2)
    run(fixture.store.flush_behind.flush())
    fixture.disk.fail("read", errno.EIO, inside="/b/", count=1)
    fixture.store.retention.request_deletion()

    with pytest.raises(OSError, match="Input/output"):
        run(fixture.store.retention.clean())
    assert [queue.min_offset for queue in fixture.store.queues] == [1, 0, 1, 2]

    run(fixture.store.retention.clean())
    assert [queue.min_offset for queue in fixture.store.queues] == [1, 1, 1, 2]


def test_a_queue_file_that_cannot_be_removed_keeps_the_files_after_it() -> None:
    """Otherwise there would be a gap, and the next start would refuse the queue."""
    fixture = fixture_with_still_clock(file_reserved_time=0, delete_file_batch_max=100)
    for number in range(40):
        put(fixture.store, draft(b"x" * 900, "t", number % 2))
    fixture.fill(1)
    run(fixture.store.flush_behind.flush())
    fixture.disk.fail("remove", errno.EIO, inside="/t/0/", at=1, count=1)
    fixture.store.retention.request_deletion()

    with pytest.raises(OSError, match="Input/output"):
        run(fixture.store.retention.clean())
    assert fixture.disk.names(QUEUE) == [f"{160 * number:020d}" for number in (1, 2)]
    assert len(fixture.disk.names(QUEUE.with_name("1"))) == 1
    assert opened(fixture.disk.after_kill()).queues.find("t", 0).max_offset == 22

    run(fixture.store.retention.clean())
    assert fixture.disk.names(QUEUE) == [f"{320:020d}"]


async def test_many_queues_are_trimmed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0)
    for number in range(200):
        put(fixture.store, draft(b"x", "many", number))
    fixture.fill(2)
    monkeypatch.setattr("kerolox.store.cleanup.trim._SLICE_SECONDS", -1)
    fixture.store.retention.request_deletion()
    iterations = 0

    async def count_iterations() -> None:
        nonlocal iterations
        while True:
            await asyncio.sleep(0)
            iterations += 1

    counting = asyncio.create_task(count_iterations())
    await fixture.store.retention.clean()
    counting.cancel()

    assert iterations >= 199
    assert fixture.store.queues.find("many", 199).min_offset == 1
