"""Time to open a store after a clean stop, and after its process was killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.child_process import in_child, in_killed_child
from bench.store_messages import config, drafts, mixed_drafts
from kerolox.store.log.commit_log import Append
from kerolox.store.store import Store

GIB = 1024**3
QUEUES = 64
# Stands for a body size that differs from message to message.
MIXED = 0
_GROUP = 256
_CHUNK_SIZE = 1024 * 1024


class Kind(NamedTuple):
    """The messages of a log, and its fraction of the requested size: logs of small messages take longer to recover."""

    body_size: int
    part: float
    has_keys: bool = False

    def __str__(self) -> str:
        if self.body_size == MIXED:
            return "20 B to 4 KiB bodies of several topics"
        return f"{self.body_size} B bodies" + (" and two keys" if self.has_keys else "")

    def drafts(self, first: int) -> list[Append]:
        """Return the next messages of the log."""
        if self.body_size == MIXED:
            return mixed_drafts(_GROUP, first)
        return drafts(self.body_size, _GROUP, QUEUES, first, has_keys=self.has_keys)


class Cost(NamedTuple):
    """Wall and CPU seconds to open a store."""

    seconds: float
    cpu: float


@dataclass(slots=True)
class Recoveries:
    """Costs per GiB of every round; `plain` is the cost of reading the same files and computing a checksum."""

    records: int = 0
    size: int = 0
    crashed: list[Cost] = field(default_factory=list)
    flushed: list[Cost] = field(default_factory=list)
    clean: list[Cost] = field(default_factory=list)
    plain: list[Cost] = field(default_factory=list)


def recoveries(kind: Kind, size: int, rounds: int, directory: Path, show_status: Callable[[str], None]) -> Recoveries:
    """Fill a log with its fraction of `size` bytes, and open it repeatedly.

    The first process is killed when only the log has been flushed, so the whole log must be read and dispatched. The
    next processes are killed too before they flush anything.
    """
    label, size = str(kind), int(size * kind.part)
    show_status(f"{label}: filling a log of {size / GIB:.2f} GiB")
    found = Recoveries()
    found.records, found.size = in_killed_child(_fill, directory, kind, size)
    gib = found.size / GIB

    def add(costs: list[Cost], cost: Cost) -> None:
        costs.append(Cost(cost.seconds / gib, cost.cpu / gib))

    for number in range(rounds):
        show_status(f"{label}: after a crash, round {number + 1}/{rounds}")
        cost, records = in_killed_child(_open, directory)
        assert records == found.records, f"{records} of {found.records} records were read"
        add(found.crashed, cost)
        show_status(f"{label}: plain reads, round {number + 1}/{rounds}")
        add(found.plain, in_child(_read_plainly, directory, found.size))
    in_child(_open_and_close, directory)
    for number in range(rounds):
        show_status(f"{label}: after a crash with all flushed, round {number + 1}/{rounds}")
        in_killed_child(_open_and_flush, directory)
        add(found.flushed, in_killed_child(_open, directory)[0])
    in_child(_open_and_close, directory)
    for number in range(rounds):
        show_status(f"{label}: after a clean stop, round {number + 1}/{rounds}")
        add(found.clean, in_child(_open_and_close, directory))
    return found


def _fill(directory: Path, kind: Kind, size: int) -> tuple[int, int]:
    store = Store(config(directory))
    store.recover()
    records = 0
    while store.log.end_offset < size:
        records += len(store.append(kind.drafts(records)))
    # The log itself is durable; queues, index and checkpoint are not.
    asyncio.run(store.flusher.flush())
    return records, store.log.end_offset


def _open(directory: Path) -> tuple[Cost, int]:
    store = Store(config(directory))
    with _measured() as costs:
        recovered = store.recover()
    return costs[0], recovered.records


def _open_and_flush(directory: Path) -> None:
    store = Store(config(directory))
    store.recover()
    asyncio.run(store.flush_behind.flush())


def _open_and_close(directory: Path) -> Cost:
    store = Store(config(directory))
    with _measured() as costs:
        store.recover()
    asyncio.run(store.close())
    return costs[0]


def _read_plainly(directory: Path, left: int) -> Cost:
    settings = config(directory)
    checksum = 0
    with _measured() as costs:
        for path in sorted(settings.commit_log_directory.iterdir()):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                for at in range(0, min(left, settings.mapped_file_size_commit_log), _CHUNK_SIZE):
                    checksum = zlib.crc32(os.pread(descriptor, _CHUNK_SIZE, at), checksum)
            finally:
                os.close(descriptor)
            left -= settings.mapped_file_size_commit_log
    return costs[0]


@contextlib.contextmanager
def _measured() -> Iterator[list[Cost]]:
    costs: list[Cost] = []
    start, cpu = time.perf_counter(), time.process_time()
    yield costs
    costs.append(Cost(time.perf_counter() - start, time.process_time() - cpu))
