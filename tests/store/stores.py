"""Small stores on a simulated disk, and messages for them."""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.message.records.summary import peek
from kerolox.message.sysflag import is_queued
from kerolox.runtime.clock import Clock, ManualClock
from kerolox.runtime.files import Disk
from kerolox.runtime.threads import ThreadPool
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.reader import GetResult, GetStatus
from kerolox.store.store import Store, StoreHooks

P = ParamSpec("P")
R = TypeVar("R")

ROOT = Path("/store")
LOG = ROOT / "commitlog"
SEGMENT_SIZE = 4096
# Bytes of a record besides body, topic and properties.
OVERHEAD = 91


def record(
    body: bytes = b"body", topic: str = "orders", queue_id: int = 0, sys_flag: int = 0, **properties: str
) -> bytearray:
    return encode(Message(topic, body, to_bytes(properties), queue_id=queue_id, sys_flag=sys_flag))


def draft(
    body: bytes = b"body", topic: str = "orders", queue_id: int = 0, sys_flag: int = 0, **properties: str
) -> Append:
    records = record(body, topic, queue_id, sys_flag, **properties)
    return Append(topic, queue_id, records, is_queued=is_queued(sys_flag))


def batch(bodies: list[bytes], topic: str = "orders", queue_id: int = 0, **properties: str) -> Append:
    records, starts = bytearray(), []
    for body in bodies:
        starts.append(len(records))
        records += record(body, topic, queue_id, 0, **properties)
    return Append(topic, queue_id, records, tuple(starts))


def draft_of_size(size: int, topic: str = "t", queue_id: int = 0) -> Append:
    """Return an append of exactly `size` bytes."""
    append = draft(b"x" * (size - OVERHEAD - len(topic)), topic, queue_id)
    assert len(append.records) == size
    return append


def config(flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, /, **settings: object) -> StoreConfig:
    chosen = StoreConfig(
        store_path_root_dir=ROOT,
        mapped_file_size_commit_log=SEGMENT_SIZE,
        mapped_file_size_consume_queue=20 * 8,
        max_hash_slot_num=16,
        max_index_num=24,
        flush_disk_type=flush,
    )
    for name, value in settings.items():
        assert hasattr(chosen, name)
        setattr(chosen, name, value)
    return chosen


def new_store(
    disk: Disk, settings: StoreConfig | None = None, clock: Clock | None = None, hooks: StoreHooks | None = None
) -> Store:
    return Store(settings or config(), clock=clock or ManualClock(), disk=disk, hooks=hooks)


def opened(
    disk: Disk, settings: StoreConfig | None = None, clock: Clock | None = None, hooks: StoreHooks | None = None
) -> Store:
    store = new_store(disk, settings, clock, hooks)
    store.recover()
    return store


def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run calls for threads inline, so that coroutines of the store never wait and need no event loop."""

    async def call_inline(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    for module in (
        "flush_behind",
        "delay.delay_offsets",
        "log.allocator",
        "cleanup.retention",
        "cleanup.topics",
        "cleanup.trim",
    ):
        monkeypatch.setattr(f"kerolox.store.{module}.in_thread", call_inline)

    async def run_inline(_: ThreadPool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    monkeypatch.setattr(ThreadPool, "run", run_inline)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: R = stop.value
        return result
    raise AssertionError("the coroutine waited")


class StillClock(ManualClock):
    """A clock that the test moves, without sleeping tasks."""

    def move(self, seconds: float) -> None:
        self._now += seconds


def segments(disk: Disk, size: int = SEGMENT_SIZE, files_max: int = 100, directory: Path = LOG) -> Segments:
    return Segments(OpenFiles(disk, files_max), directory, size)


def put(store: Store, *appends: Append) -> list[Appended]:
    """Append, and check that everything was appended."""
    positions = store.append(appends)
    assert len(positions) == len(appends)
    return positions


async def fetched(store: Store, topic: str, queue_id: int, queue_offset: int, count_max: int = 32) -> GetResult:
    """Read like a pull in the broker: blocks that are not in memory are read from disk first."""
    return await store.cold_reads.read(lambda: store.reader.get(topic, queue_id, queue_offset, count_max=count_max))


def all_records(store: Store, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Read a queue like a consumer, from its first offset to its last, and check that it has no gap."""
    return [data for _, data in numbered_records(store, topic, queue_id)]


def numbered_records(store: Store, topic: str, queue_id: int) -> Iterator[tuple[int, bytes]]:
    queue = store.queues.get(topic, queue_id)
    if queue is None:
        return
    offset = queue.min_offset
    while offset < queue.max_offset:
        got = store.reader.get(topic, queue_id, offset, count_max=3)
        assert got.next_offset > offset
        if got.status is GetStatus.FOUND:
            for data in got.records:
                known = peek(data, check_crc=True)
                assert (known.topic, known.queue_id) == (topic, queue_id)
                assert offset <= known.queue_offset < got.next_offset
                yield known.queue_offset, data
        offset = got.next_offset
