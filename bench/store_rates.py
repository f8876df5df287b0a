"""Rates of puts and gets, compared with plain writes and reads of the same bytes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.store_messages import config, drafts
from kerolox.store.config import FlushDiskType
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store

IN_FLIGHT = 256
READ_COUNT_MAX = 32

StatusCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """A number of messages of one size, spread over a number of queues."""

    body_size: int
    queues: int
    messages: int

    def __str__(self) -> str:
        size = f"{self.body_size // 1024} KiB" if self.body_size >= 1024 else f"{self.body_size} B"
        return f"{size}, {self.queues:,} queue{'s' if self.queues > 1 else ''}"


@dataclass(slots=True)
class Rates:
    """Messages per second of every round."""

    ours: list[float]
    plain: list[float]


def append_rates(
    load: Load, flush: FlushDiskType, rounds: int, directory: Path, show_status: StatusCallback
) -> dict[str, Rates]:
    """Return the rates of `Store.put` and `Store.append`; the store and the plain file take turns."""
    return asyncio.run(_append_rates(load, flush, rounds, directory, show_status))


async def _append_rates(
    load: Load, flush: FlushDiskType, rounds: int, directory: Path, show_status: StatusCallback
) -> dict[str, Rates]:
    made = drafts(load.body_size, load.messages, load.queues)
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    rates = {"put": Rates([], []), "append": Rates([], [])}
    store = Store(config(directory, flush))
    await store.open()
    services = asyncio.create_task(store.run())
    try:
        # The first round creates files and fills caches.
        for number in range(rounds + 1):
            for method, put in (("put", _put_all), ("append", _append_all)):
                show_status(f"{flush.value}, {load}, {method}, round {number}/{rounds}")
                ours = await _timed(put(store, made))
                await store.flush_behind.flush()
                plain = _write_plainly(directory / "plain", made, is_sync=is_sync)
                if number:
                    rates[method].ours.append(len(made) / ours)
                    rates[method].plain.append(len(made) / plain)
    finally:
        services.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await services
        await store.close()
    return rates


async def _timed(work: Awaitable[None]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


async def _put_all(store: Store, made: Sequence[Append]) -> None:
    """Put all messages, with a fixed number in flight."""
    waiting = iter(made)

    async def sender() -> None:
        for draft in waiting:
            _, status = await store.put(draft)
            assert status is AckStatus.OK

    await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))


async def _append_all(store: Store, made: Sequence[Append]) -> None:
    is_sync = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
    for group in _groups(made):
        places = store.append(group)
        assert len(places) == len(group)
        if is_sync:
            assert await store.flusher.wait(places[-1].end_offset, timeout_seconds=60)


def _groups(made: Sequence[Append]) -> Iterator[Sequence[Append]]:
    for first in range(0, len(made), IN_FLIGHT):
        yield made[first : first + IN_FLIGHT]


def _write_plainly(path: Path, made: Sequence[Append], *, is_sync: bool) -> float:
    """Write the same bytes in pieces of the same size into an existing file; return the seconds."""
    pieces = [b"".join([draft.records for draft in group]) for group in _groups(made)]
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, sum(map(len, pieces)))
        os.fsync(descriptor)
        at = 0
        start = time.perf_counter()
        for piece in pieces:
            at += os.pwrite(descriptor, piece, at)
            if is_sync:
                os.fdatasync(descriptor)
        return time.perf_counter() - start
    finally:
        os.close(descriptor)
        path.unlink()


def read_rates(load: Load, rounds: int, directory: Path, show_status: StatusCallback) -> Rates:
    """Return the rates of `Reader.get`, queue by queue from the first message to the last.

    The plain reads read the same bytes, with one call for each contiguous range.
    """
    made = drafts(load.body_size, load.messages, load.queues)
    rates = Rates([], [])
    store = Store(config(directory))
    store.recover()
    try:
        places = [place for group in _groups(made) for place in store.append(group)]
        asyncio.run(store.flush_behind.flush())
        pieces = _pieces(load, [(place.physical_offset, place.end_offset) for place in places])
        for number in range(rounds + 1):
            show_status(f"reading {load}, round {number}/{rounds}")
            start = time.perf_counter()
            _read_all(store, load, len(made))
            ours = time.perf_counter() - start
            plain = _read_plainly(store.config.commit_log_directory, pieces, store.config.mapped_file_size_commit_log)
            if number:
                rates.ours.append(len(made) / ours)
                rates.plain.append(len(made) / plain)
    finally:
        asyncio.run(store.close())
    return rates


def _read_all(store: Store, load: Load, count: int) -> None:
    found = 0
    for topic, queue_id in [key for key, _ in store.queues.items()]:
        offset = 0
        while True:
            got = store.reader.get(topic, queue_id, offset, count_max=READ_COUNT_MAX)
            if got.status is not GetStatus.FOUND:
                break
            found += len(got.records)
            offset = got.next_offset
    assert found == count, f"{found} of {count} messages were read"


def _pieces(load: Load, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return offset and size of each read."""
    if load.queues > 1:
        by_queue = (places[first :: load.queues] for first in range(load.queues))
        return [(start, end - start) for queue in by_queue for start, end in queue]
    count = min(READ_COUNT_MAX, max(1, 256 * 1024 // (places[0][1] - places[0][0])))
    runs = (places[first : first + count] for first in range(0, len(places), count))
    return [(run[0][0], run[-1][1] - run[0][0]) for run in runs]


def _read_plainly(directory: Path, pieces: list[tuple[int, int]], file_size: int) -> float:
    paths = sorted(directory.iterdir())
    descriptors = {int(path.name) // file_size: os.open(path, os.O_RDONLY) for path in paths if path.name.isdigit()}
    try:
        start = time.perf_counter()
        for offset, size in pieces:
            os.pread(descriptors[offset // file_size], size, offset % file_size)
        return time.perf_counter() - start
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
