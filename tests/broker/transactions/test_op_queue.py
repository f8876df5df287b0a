"""Ops of resolved half messages are collected and written many at a time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.send.put import MessagePut
from kerolox.broker.tables.system_topics import OP_TOPIC
from kerolox.broker.transactions.op_queue import OpQueue, half_offsets
from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.runtime.clock import ManualClock
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreBusy
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import Sender
from kerolox.store.store import Store
from tests.broker.transactions.producers import until
from tests.store.stores import all_records, draft


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(StoreConfig(store_path_root_dir=tmp_path, mapped_file_size_commit_log=1 << 20), clock=ManualClock())
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ops(store: Store, clock: ManualClock) -> OpQueue:
    return OpQueue(BrokerConfig(), MessagePut(store, lambda message: message), clock)


def written(store: Store) -> list[Message]:
    return [decode(record) for record in all_records(store, OP_TOPIC)]


async def test_a_record_is_written_when_it_is_full(store: Store, ops: OpQueue) -> None:
    writing = asyncio.create_task(ops.run_on_full_batch())
    for offset in range(10_000, 10_682):
        ops.add(offset)
    for _ in range(10):
        await asyncio.sleep(0)
    assert written(store) == []

    for offset in range(10_682, 11_500):
        ops.add(offset)
    await until(lambda: len(written(store)) == 3)

    assert [len(op.body) for op in written(store)] == [4098, 4098, 6 * (1500 - 2 * 683)]
    assert [offset for op in written(store) for offset in half_offsets(op)] == list(range(10_000, 11_500))
    writing.cancel()


async def test_remaining_ops_are_written_at_close(store: Store, ops: OpQueue) -> None:
    ops.add(7)
    ops.add(8)

    await ops.close()

    (op,) = written(store)
    assert (op.body, op.get("TAGS"), op.queue_id, op.sys_flag) == (b"7,8,", "d", 0, 0)


async def test_ops_that_could_not_be_written_are_written_later_in_order(
    store: Store, ops: OpQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.retention, "refusal", "the disk is full")
    ops.add(1)
    await ops.write()
    ops.add(2)
    await until(lambda: len(ops) == 2)
    monkeypatch.setattr(store.retention, "refusal", None)

    await ops.close()

    assert [op.body for op in written(store)] == [b"1,2,"]


async def test_the_number_of_unwritten_ops_is_limited(
    store: Store, ops: OpQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.retention, "refusal", "the disk is full")
    for offset in range(199_999):
        ops.add(offset)
    await ops.write()
    await until(lambda: len(ops) == 199_999)
    assert not ops.is_full

    ops.add(199_999)

    assert ops.is_full
    monkeypatch.setattr(store.retention, "refusal", None)
    await ops.close()
    assert sum(len(half_offsets(op)) for op in written(store)) == 200_000


async def test_an_op_is_written_when_the_committed_message_is_durable(store: Store, ops: OpQueue) -> None:
    """Otherwise a power cut could remove the message and leave the op that prevents a check."""
    store.append([draft(b"committed")])
    ops.add(1)
    end = store.log.end_offset
    assert store.flusher.durable_offset < end

    await ops.write()

    assert store.flusher.durable_offset >= end


async def test_ops_wait_for_a_log_that_cannot_be_synced(
    store: Store, ops: OpQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        pass

    store.append([draft(b"committed")])
    ops.add(1)
    with monkeypatch.context() as patched:
        patched.setattr(store.flusher, "flush", fails)
        await ops.write()
        assert len(ops) == 1

    await ops.close()

    assert [op.body for op in written(store)] == [b"1,"]


class BusyStore:
    """Makes a store refuse messages as overloaded once `left` of them were accepted."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> None:
        self._submit = store.submit
        self.left, self.refused = after, 0
        monkeypatch.setattr(store, "submit", self)

    def __call__(self, draft: Append, sender: Sender) -> None:
        if self.left == 0:
            self.refused += 1
            raise StoreBusy("256 bytes of messages wait to be stored, at most 256 allowed")
        self.left -= 1
        self._submit(draft, sender)


async def test_ops_refused_by_a_busy_store_are_written_later(
    store: Store, clock: ManualClock, ops: OpQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyStore(store, monkeypatch, after=1)
    writing = [asyncio.create_task(ops.run()), asyncio.create_task(ops.run_on_full_batch())]
    for offset in range(10_000, 11_500):
        ops.add(offset)
    await until(lambda: busy.refused == 1)
    assert len(ops) == 1500 - 683

    busy.left = 10
    await clock.advance(3)
    await until(lambda: len(ops) == 0)
    await ops.close()

    assert not any(task.done() for task in writing)
    assert [offset for op in written(store) for offset in half_offsets(op)] == list(range(10_000, 11_500))
    for task in writing:
        task.cancel()


async def test_a_store_that_stays_busy_does_not_block_closing(
    store: Store, ops: OpQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    BusyStore(store, monkeypatch)
    ops.add(1)

    async with asyncio.timeout(30):
        await ops.close()

    assert len(ops) == 1
    assert "1 transaction ops are not written; their producers will be asked again" in caplog.messages
