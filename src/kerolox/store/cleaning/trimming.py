"""Lets queues and index follow the beginning of the log, after files of it were deleted."""

import asyncio
from collections import deque

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.segments import Removal
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.queue.queue_ext import ExtendedQueue
from kerolox.store.queue.queues import Queues

# So long others wait while queues are looked through.
_SLICE_SECONDS = 0.005


async def trim(queues: Queues, index: KeyIndex | None, lock: asyncio.Lock, clock: Clock, first_offset: int) -> None:
    """Deletes files that lead only to records before `first_offset`, and moves the first offset of each queue.

    There may be very many queues: they are taken in slices, with `lock` held, and others have their turn in between.
    OSError if something could not be deleted; all the rest is.
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
    """Takes queues for as long as a slice lasts, and returns what went wrong with them."""
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
                    queue.settle(removal)
    return failures


def _remove(removals: list[list[Removal]]) -> list[OSError]:
    """Removes files of several queues, and returns what went wrong; of one queue none after one that stays."""
    failures: list[OSError] = []
    for of_queue in removals:
        try:
            for removal in of_queue:
                removal.run()
        except OSError as error:
            failures.append(error)
    return failures
