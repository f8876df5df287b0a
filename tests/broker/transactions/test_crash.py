"""Transactions are resolved as their producer decides, after a crash at every disk operation."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

import pytest

from kerolox.broker.config import Settings
from kerolox.broker.parts import build_parts
from kerolox.broker.processors.end_transaction import EndTransactionProcessor
from kerolox.broker.send.put import MessagePut
from kerolox.broker.tables.system_topics import HALF_TOPIC
from kerolox.broker.transactions.half_queue import prepared
from kerolox.broker.transactions.service import TransactionService
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode
from kerolox.remoting.router import Incoming
from kerolox.store.config import FlushDiskType
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import AckStatus, Sender
from kerolox.store.store import Store
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.headers.messages import CheckTransactionState
from tests.broker.transactions.producers import COMMIT, GROUP, ROLLBACK, ending
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import StillClock, all_records, config, without_threads

P = ParamSpec("P")
R = TypeVar("R")

IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "1"))
# Enough rounds for every transaction to be checked and resolved.
ROUNDS = 4


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_no_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    without_threads(monkeypatch)
    monkeypatch.setattr("kerolox.broker.tables.json_file.in_thread", in_no_thread)


class ManualPut(MessagePut):
    """Stores submitted messages when `pump` is called, without an event loop."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda message: message)
        self._submitted: list[tuple[Append, Sender]] = []

    def submit(self, append: Append, sender: Sender) -> None:
        self._submitted.append((append, sender))

    def pump(self) -> None:
        submitted, self._submitted = self._submitted, []
        for append, sender in submitted:
            (appended,) = self.store.append([append])
            sender.stored(appended, AckStatus.OK)


@dataclass
class ProducerState:
    """The producer's decisions by transaction key, and the keys whose half message was acknowledged."""

    decisions: dict[str, int] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)


class BrokerRun:
    """One run of a broker without sockets, and its producer, which answers whenever it is asked."""

    def __init__(self, disk: SimulatedDisk, clock: StillClock, flush: FlushDiskType, producer: ProducerState) -> None:
        self.disk, self.producer, self._clock, self._flush = disk, producer, clock, flush
        parts = build_parts(Settings(store=config(flush)), clock, disk)
        self.store, self._offsets = parts.store, parts.offsets
        self._message_put = ManualPut(self.store)
        parts = replace(parts, message_put=self._message_put)
        parts.clients.producers[GROUP] = {self: None}  # type: ignore[dict-item]
        self.transactions = TransactionService(parts)
        self._processor = EndTransactionProcessor(parts, self.transactions)
        self._check_requests: list[CheckTransactionState] = []
        self._carried: list[Coroutine[Any, Any, None]] = []

    async def open(self) -> None:
        self._offsets.load()
        await self.store.open()
        await self.transactions.open()

    async def script(self) -> None:
        await self.open()
        for number in range(7):
            offsets = await self._prepare(f"K{number}", COMMIT if number % 3 else ROLLBACK)
            if number % 2:
                await self.end(offsets, self.producer.decisions[f"K{number}"])
            self._clock.move(4)
            if number % 4 == 3:
                await self.round()
                await self._offsets.file.save()
            if number % 4 == 1:
                await self.transactions.op_queue.write()
                self._message_put.pump()
                await self.store.flush_behind.flush()
        await self.round(is_producer_answering=False)
        await self._offsets.file.save()
        await self.round()

    async def _prepare(self, key: str, decision: int) -> tuple[int, int]:
        self.producer.decisions[key] = decision
        names = to_bytes({"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key})
        sent = Message("orders", key.encode(), names, 0, born_timestamp=self._clock.millis())
        (appended,) = self.store.append([self._message_put.draft(prepared(sent))])
        await self._durable()
        self.producer.acknowledged.add(key)
        return appended.queue_offset, appended.physical_offset

    async def _durable(self) -> None:
        if self._flush is FlushDiskType.SYNC_FLUSH:
            await self.store.flusher.flush()

    async def end(self, offsets: tuple[int, int], decision: int, *, is_check: bool = False) -> None:
        header = ending(offsets, decision, is_check=is_check)
        self._processor.end(Incoming(code=37, opaque=0, flag=ONEWAY_BIT, header=header, origin=self))
        while self._carried:
            await self._carried.pop()
        self._message_put.pump()
        await self._durable()

    # The interface of the producer's connection.
    def carry(self, work: Coroutine[Any, Any, None]) -> None:
        self._carried.append(work)

    def send_oneway(self, request: CheckTransactionState, body: bytes) -> bool:
        self._check_requests.append(request)
        return True

    async def round(self, *, is_producer_answering: bool = True) -> None:
        await self.transactions.checker.check()
        requests, self._check_requests = self._check_requests, []
        for request in requests if is_producer_answering else ():
            offsets = request.tran_state_table_offset, request.commit_log_offset
            assert request.msg_id is not None
            await self.end(offsets, self.producer.decisions[request.msg_id], is_check=True)

    def known(self) -> set[str]:
        """The keys of the half messages in the log."""
        return {decode(record).body.decode() for record in all_records(self.store, HALF_TOPIC)}

    def committed(self) -> Counter[str]:
        return Counter(decode(record).body.decode() for record in all_records(self.store, "orders"))


def run_until(stop_after: int | None, flush: FlushDiskType) -> BrokerRun:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    run = BrokerRun(disk, StillClock(), flush, ProducerState())
    with contextlib.suppress(Stopped):
        asyncio.run(run.script())
    return run


def every_stop(flush: FlushDiskType) -> Iterator[tuple[int, BrokerRun]]:
    complete = run_until(None, flush)
    assert len(complete.committed()) >= 3
    for stop_after in range(complete.disk.operations):
        yield stop_after, run_until(stop_after, flush)


async def finish_and_check(
    left: SimulatedDisk, producer: ProducerState, flush: FlushDiskType, *, keeps_acknowledged: bool
) -> None:
    """Restart on the given disk, crash once more, and check that every transaction is resolved."""
    clock = StillClock(1_700_000_100_000)
    first = BrokerRun(left, clock, flush, producer)
    await first.open()
    # Under ASYNC_FLUSH a half message may be lost whose committed message is not.
    known = first.known() | set(first.committed())
    if keeps_acknowledged:
        assert producer.acknowledged <= known
    await first.round()
    await first.store.flusher.flush()
    await first._offsets.file.save()
    again = BrokerRun(left.after_kill(), clock, flush, producer)
    await again.open()
    for _ in range(ROUNDS):
        clock.move(60)
        await again.round()
    expected = {key for key in known if producer.decisions[key] == COMMIT}
    assert again.committed() == Counter(expected)
    assert again.transactions.resolved.cursor == again.store.append_offset(HALF_TOPIC, 0)


@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_kill_each_transaction_is_resolved_once_as_decided(flush: FlushDiskType) -> None:
    for stop_after, run in every_stop(flush):
        with with_note(f"killed after {stop_after}"):
            asyncio.run(finish_and_check(run.disk.after_kill(), run.producer, flush, keeps_acknowledged=True))


@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_power_cut_each_stored_transaction_is_resolved_once_as_decided(flush: FlushDiskType) -> None:
    """Under ASYNC_FLUSH half messages may be lost, but those still in the log are resolved."""
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    for stop_after, run in every_stop(flush):
        for number, left in enumerate(run.disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with with_note(f"cut after {stop_after}, image {number}"):
                asyncio.run(finish_and_check(left, run.producer, flush, keeps_acknowledged=is_sync))


@contextlib.contextmanager
def with_note(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
