"""Deletes queue and index files whose records were deleted from the log."""

import asyncio
from collections import deque

from kerolox.runtime.clock import Clock
from kerolox.runtime.threads import in_thread
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.log.segments import Removal
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.queue.queue_ext import ExtendedQueue
from kerolox.store.queue.queues import Queues

# Time per slice before other tasks may run.
_SLICE_SECONDS = 0.005


async def trim(queues: Queues, index: KeyIndex | None, lock: asyncio.Lock, clock: Clock, first_offset: int) -> None:
    """Delete files that point only to records before `first_offset`, and move the first offset of each queue.

    There may be very many queues: they are processed in slices, each with `lock` held, and other tasks run in between.
    OSError if something could not be deleted; everything else is.
    """
    failures: list[OSError] = []
    waiting = deque(queues)
    while waiting:
        async with lock:
            failures += await _trim_some(waiting, clock, first_offset)
        if waiting:
            await asyncio.sleep(0)
    if index is not None:
        async with lock:
            await in_thread(index.detach_before(first_offset).run)
    if failures:
        raise failures[0]


async def _trim_some(queues: deque[ConsumeQueue], clock: Clock, first_offset: int) -> list[OSError]:
    """Trim queues until the slice is over; return the failures."""
    failures: list[OSError] = []
    removals: list[tuple[ConsumeQueue, list[Removal]]] = []
    end = clock.monotonic() + _SLICE_SECONDS
    while queues:
        queue = queues.popleft()
        try:
            queue.expire(first_offset)
            if isinstance(queue, ExtendedQueue):
                queue.delete_units()
        except OSError as error:
            failures.append(error)
        if of_queue := list(iter(queue.detach, None)):
            removals.append((queue, of_queue))
        if clock.monotonic() > end:
            break
    if removals:
        try:
            failures += await in_thread(_remove, [of_queue for _, of_queue in removals])
        finally:
            for queue, of_queue in removals:
                for removal in reversed(of_queue):
                    queue.finish_removal(removal)
    return failures


def _remove(removals: list[list[Removal]]) -> list[OSError]:
    """Remove files of several queues and return the failures; a queue's later files stay if an earlier one does."""
    failures: list[OSError] = []
    for of_queue in removals:
        try:
            for removal in of_queue:
                removal.run()
        except OSError as error:
            failures.append(error)
    return failures
