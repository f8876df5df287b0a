"""Ends of transactions are gathered, and written many at a time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import OP_TOPIC
from kerolox.broker.transactions.ops import Ops, half_offsets
from kerolox.message.message import Message
from kerolox.message.record import decode
from kerolox.runtime.clock import ManualClock
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreBusy
from kerolox.store.log.commit_log import Draft
from kerolox.store.log.promises import Sender
from kerolox.store.store import Store
from tests.broker.transactions.producers import until
from tests.store.stores import all_records, draft


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = Store(StoreConfig(store_path_root_dir=tmp_path, mapped_file_size_commit_log=1 << 20), clock=ManualClock())
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ops(store: Store, clock: ManualClock) -> Ops:
    return Ops(BrokerConfig(), Storing(store, lambda message: message), clock)


def written(store: Store) -> list[Message]:
    return [decode(record) for record in all_records(store, OP_TOPIC)]


async def test_a_record_is_written_when_there_is_enough_for_one(store: Store, ops: Ops) -> None:
    writing = asyncio.create_task(ops.run_often())
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


async def test_the_rest_is_written_in_the_end(store: Store, ops: Ops) -> None:
    ops.add(7)
    ops.add(8)

    await ops.close()

    (op,) = written(store)
    assert (op.body, op.get("TAGS"), op.queue_id, op.sys_flag) == (b"7,8,", "d", 0, 0)


async def test_what_could_not_be_written_is_kept_in_order_and_written_later(
    store: Store, ops: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.retention, "refusal", "the disk is full")
    ops.add(1)
    await ops.write()
    ops.add(2)
    await until(lambda: len(ops) == 2)
    monkeypatch.setattr(store.retention, "refusal", None)

    await ops.close()

    assert [op.body for op in written(store)] == [b"1,2,"]


async def test_so_many_that_cannot_be_written_are_enough(
    store: Store, ops: Ops, monkeypatch: pytest.MonkeyPatch
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


async def test_an_op_is_written_when_what_was_committed_is_durable(store: Store, ops: Ops) -> None:
    """Else a power cut could take the message and leave what says that it need not be asked about."""
    store.append([draft(b"committed")])
    ops.add(1)
    end = store.log.end_offset
    assert store.flusher.durable_offset < end

    await ops.write()

    assert store.flusher.durable_offset >= end


async def test_ops_wait_for_a_log_that_cannot_be_synced(
    store: Store, ops: Ops, monkeypatch: pytest.MonkeyPatch
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


class Busy:
    """A store that so much waits for that it takes no more, until it is told otherwise."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> None:
        self._submit = store.submit
        self.left, self.refused = after, 0
        monkeypatch.setattr(store, "submit", self)

    def __call__(self, draft: Draft, sender: Sender) -> None:
        if self.left == 0:
            self.refused += 1
            raise StoreBusy("256 bytes of messages wait to be stored, at most 256 allowed")
        self.left -= 1
        self._submit(draft, sender)


async def test_a_busy_store_ends_nothing_and_gets_the_words_later(
    store: Store, clock: ManualClock, ops: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(store, monkeypatch, after=1)
    writing = [asyncio.create_task(ops.run()), asyncio.create_task(ops.run_often())]
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


async def test_a_store_that_stays_busy_does_not_keep_a_broker_from_ending(
    store: Store, ops: Ops, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Busy(store, monkeypatch)
    ops.add(1)

    async with asyncio.timeout(30):
        await ops.close()

    assert len(ops) == 1
    assert "1 ends of transactions are not written; their producers will be asked again" in caplog.messages
