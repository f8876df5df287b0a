"""Small stores on a simulated disk, and what to put into them."""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from kerolox.message.message import Message
from kerolox.message.peek import peek
from kerolox.message.properties import to_bytes
from kerolox.message.record import encode
from kerolox.message.sysflag import is_queued
from kerolox.runtime.blocking import OwnThreads
from kerolox.runtime.clock import Clock, ManualClock
from kerolox.runtime.files import Disk
from kerolox.store.configuration import FlushDiskType, StoreConfig
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.store.log.segments import Brought, NotInMemory, OpenFiles, Segments
from kerolox.store.reader import GetStatus, Got
from kerolox.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

ROOT = Path("/store")
LOG = ROOT / "commitlog"
SEGMENT_SIZE = 4096
# What a record has beside body, topic and properties.
OVERHEAD = 91


def record(
    body: bytes = b"body", topic: str = "orders", queue_id: int = 0, sys_flag: int = 0, **properties: str
) -> bytearray:
    return encode(Message(topic, body, to_bytes(properties), queue_id=queue_id, sys_flag=sys_flag))


def draft(
    body: bytes = b"body", topic: str = "orders", queue_id: int = 0, sys_flag: int = 0, **properties: str
) -> Draft:
    records = record(body, topic, queue_id, sys_flag, **properties)
    return Draft(topic, queue_id, records, is_queued=is_queued(sys_flag))


def batch(bodies: list[bytes], topic: str = "orders", queue_id: int = 0, **properties: str) -> Draft:
    records, starts = bytearray(), []
    for body in bodies:
        starts.append(len(records))
        records += record(body, topic, queue_id, **properties)
    return Draft(topic, queue_id, records, tuple(starts))


def draft_of_size(size: int, topic: str = "t", queue_id: int = 0) -> Draft:
    """A draft that takes exactly so many bytes of the log."""
    made = draft(b"x" * (size - OVERHEAD - len(topic)), topic, queue_id)
    assert len(made.records) == size
    return made


def config(flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, **settings: object) -> StoreConfig:
    made = StoreConfig(
        store_path_root_dir=ROOT,
        mapped_file_size_commit_log=SEGMENT_SIZE,
        mapped_file_size_consume_queue=20 * 8,
        max_hash_slot_num=16,
        max_index_num=24,
        flush_disk_type=flush,
    )
    for name, value in settings.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made


def new_store(disk: Disk, settings: StoreConfig | None = None, clock: Clock | None = None) -> Store:
    return Store(settings or config(), clock=clock or ManualClock(), disk=disk)


def opened(disk: Disk, settings: StoreConfig | None = None, clock: Clock | None = None) -> Store:
    store = new_store(disk, settings, clock)
    store.recover()
    return store


def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a store do at once what it would do in a thread, so that nothing of it waits; a loop is not needed then."""

    async def in_no_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    for module in (
        "behind",
        "delay.offsets",
        "log.preparer",
        "cleaning.retention",
        "cleaning.topics",
        "cleaning.trimming",
    ):
        monkeypatch.setattr(f"kerolox.store.{module}.in_thread", in_no_thread)

    async def in_none_of_them(_: OwnThreads, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    monkeypatch.setattr(OwnThreads, "run", in_none_of_them)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Returns what comes of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: R = stop.value
        return result
    raise AssertionError("it waited")


class StillClock(ManualClock):
    """A clock on which nobody sleeps."""

    def move(self, seconds: float) -> None:
        self._now += seconds


def segments(disk: Disk, size: int = SEGMENT_SIZE, files_max: int = 100, directory: Path = LOG) -> Segments:
    return Segments(OpenFiles(disk, files_max), directory, size)


def put(store: Store, *drafts: Draft) -> list[Appended]:
    """Appends, and checks that all of it was."""
    places = store.append(drafts)
    assert len(places) == len(drafts)
    return places


async def fetched(store: Store, topic: str, queue_id: int, queue_offset: int, count_max: int = 32) -> Got:
    """Reads as the broker does for who pulls: what is not in memory is brought there first."""

    def get(brought: Brought | None) -> Got:
        return store.reader.get(
            *(topic, queue_id, queue_offset),
            brought=brought,
            count_max=count_max,
        )

    try:
        return get({})
    except NotInMemory as missing:
        return await store.cold.read(get, missing)


def all_records(store: Store, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Reads a queue as a consumer does, from its first offset to its last, and checks that it has no hole."""
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
