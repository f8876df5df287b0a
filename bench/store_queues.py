"""Cost of many queues: memory, open files, and the time to open them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.child_process import in_child
from bench.measure import memory
from bench.store_messages import config, drafts
from kerolox.store.store import Store

_BODY_SIZE = 128
_GROUP = 1_000


@dataclass(frozen=True, slots=True)
class QueueCosts:
    """Memory and open files of a process with an open store, and the times to open and close it."""

    seconds: float
    resident: int
    resident_before: int
    files: int
    close_seconds: float


def many_queues(
    count: int, directory: Path, show_status: Callable[[str], None]
) -> tuple[QueueCosts, QueueCosts, QueueCosts]:
    """Measure after writing and flushing all queues, after opening them, and after opening them after a crash."""
    show_status(f"{count:,} queues: writing to each")
    written = in_child(_write, directory, count)
    show_status(f"{count:,} queues: opening them after a clean stop")
    opened = in_child(_open, directory, count)
    (config(directory).store_path_root_dir / "abort").touch()
    show_status(f"{count:,} queues: opening them after a crash")
    return written, opened, in_child(_open, directory, count)


def _write(directory: Path, count: int) -> QueueCosts:
    before = memory(os.getpid()).resident
    store = Store(config(directory))
    store.recover()
    start = time.perf_counter()
    for first in range(0, count, _GROUP):
        store.append(drafts(_BODY_SIZE, min(_GROUP, count - first), count, first))
    asyncio.run(store.flush_behind.flush())
    return _costs(store, count, time.perf_counter() - start, before)


def _open(directory: Path, count: int) -> QueueCosts:
    before = memory(os.getpid()).resident
    store = Store(config(directory))
    start = time.perf_counter()
    store.recover()
    return _costs(store, count, time.perf_counter() - start, before)


def _costs(store: Store, count: int, seconds: float, before: int) -> QueueCosts:
    assert len(store.queues) == count
    assert all(queue.max_offset == 1 for queue in store.queues)
    files = len(list(Path("/proc/self/fd").iterdir()))
    resident = memory(os.getpid()).resident
    start = time.perf_counter()
    asyncio.run(store.close())
    return QueueCosts(seconds, resident, before, files, time.perf_counter() - start)
