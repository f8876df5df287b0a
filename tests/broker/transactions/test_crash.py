"""The machine stops after every operation that changes something, and transactions end as their producer wants."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import pytest

from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.processors.transactions import TransactionProcessor
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import HALF_TOPIC
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions.half import prepared
from kerolox.broker.transactions.transactions import Transactions
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.record import decode
from kerolox.remoting.routes import Incoming
from kerolox.runtime.lanes import Lane
from kerolox.store.configuration import FlushDiskType
from kerolox.store.log.commit_log import Draft
from kerolox.store.log.promises import Sender
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.headers.messages import CheckTransactionState
from tests.broker.transactions.producers import COMMIT, GROUP, ROLLBACK, ending
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import ROOT, StillClock, all_records, config, new_store, without_threads

P = ParamSpec("P")
R = TypeVar("R")

IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "1"))
# Enough rounds for every producer to have been asked and to have answered.
ROUNDS = 4


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_no_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    without_threads(monkeypatch)
    monkeypatch.setattr("kerolox.broker.persistence.in_thread", in_no_thread)


class Straight(Storing):
    """Stores without a loop; senders are told when `pump` is called."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._submitted: list[tuple[Draft, Sender]] = []

    def submit(self, draft: Draft, sender: Sender) -> None:
        self._submitted.append((draft, sender))

    def pump(self) -> None:
        submitted, self._submitted = self._submitted, []
        for draft, sender in submitted:
            (place,) = self.store.append([draft])
            sender.stored(place, True)


@dataclass
class Told:
    """What the producer knows: its transactions by key, and those that are sure to be stored."""

    decisions: dict[str, int] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)


class Life:
    """A broker without sockets, and its producer, which answers whenever it is asked."""

    def __init__(self, disk: SimulatedDisk, clock: StillClock, flush: FlushDiskType, told: Told) -> None:
        self.disk, self.told, self._clock, self._flush = disk, told, clock, flush
        settings = BrokerConfig()
        self.store = new_store(disk, config(flush), clock)
        self._storing = Straight(self.store, lambda message: message)
        self._offsets = ConsumerOffsets(settings, disk, ROOT / "config", clock)
        topics = TopicTable(settings, disk, ROOT / "config", clock)
        clients = Clients(settings, clock)
        clients.producers[GROUP] = {self: None}  # type: ignore[dict-item]
        self.transactions = Transactions(settings, self._storing, topics, self._offsets, clients, clock)
        statistics = Statistics("cluster", topics.is_system, clock)
        lane = Lane("transaction", 100)
        self._processor = TransactionProcessor(settings, self.transactions, self._storing, lane, clock, statistics)
        self._asked: list[CheckTransactionState] = []
        self._carried: list[Coroutine[Any, Any, None]] = []

    async def open(self) -> None:
        self._offsets.load()
        await self.store.open()
        await self.transactions.open()

    async def script(self) -> None:
        await self.open()
        for number in range(7):
            place = await self._prepare(f"K{number}", COMMIT if number % 3 else ROLLBACK)
            if number % 2:
                await self.end(place, self.told.decisions[f"K{number}"])
            self._clock.move(4)
            if number % 4 == 3:
                await self.round()
                await self._offsets.file.save()
            if number % 4 == 1:
                await self.transactions.ops.write()
                self._storing.pump()
                await self.store.behind.flush()
        await self.round(is_answered=False)
        await self._offsets.file.save()
        await self.round()

    async def _prepare(self, key: str, decision: int) -> tuple[int, int]:
        self.told.decisions[key] = decision
        names = to_bytes({"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key})
        sent = Message("orders", key.encode(), names, 0, born_timestamp=self._clock.millis())
        (place,) = self.store.append([self._storing.draft(prepared(sent))])
        await self._durable()
        self.told.promised.add(key)
        return place.queue_offset, place.physical_offset

    async def _durable(self) -> None:
        if self._flush is FlushDiskType.SYNC_FLUSH:
            await self.store.flusher.flush()

    async def end(self, place: tuple[int, int], decision: int, *, is_asked: bool = False) -> None:
        header = ending(place, decision, is_asked=is_asked)
        self._processor.end(Incoming(code=37, opaque=0, flag=ONEWAY_BIT, header=header, origin=self))
        while self._carried:
            await self._carried.pop()
        self._storing.pump()
        await self._durable()

    # The connection of its producer.
    def carry(self, work: Coroutine[Any, Any, None]) -> None:
        self._carried.append(work)

    def tell(self, request: CheckTransactionState, body: bytes) -> bool:
        self._asked.append(request)
        return True

    async def round(self, *, is_answered: bool = True) -> None:
        await self.transactions.checker.check()
        asked, self._asked = self._asked, []
        for request in asked if is_answered else ():
            place = request.tran_state_table_offset, request.commit_log_offset
            assert request.msg_id is not None
            await self.end(place, self.told.decisions[request.msg_id], is_asked=True)

    def known(self) -> set[str]:
        """The transactions whose half messages the log has."""
        return {decode(record).body.decode() for record in all_records(self.store, HALF_TOPIC)}

    def committed(self) -> Counter[str]:
        return Counter(decode(record).body.decode() for record in all_records(self.store, "orders"))


def run_until(stop_after: int | None, flush: FlushDiskType) -> Life:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    life = Life(disk, StillClock(), flush, Told())
    with contextlib.suppress(Stopped):
        run(life.script)
    return life


def every_stop(flush: FlushDiskType) -> Iterator[tuple[int, Life]]:
    whole = run_until(None, flush)
    assert len(whole.committed()) >= 3
    for stop_after in range(whole.disk.operations):
        yield stop_after, run_until(stop_after, flush)


async def go_on(left: SimulatedDisk, told: Told, flush: FlushDiskType, *, keeps_promises: bool) -> None:
    """Goes on with what was left until every transaction has ended, and stops once more on the way."""
    clock = StillClock(1_700_000_100_000)
    first = Life(left, clock, flush, told)
    await first.open()
    # Under ASYNC_FLUSH a half message may be gone of which what was committed is there.
    known = first.known() | set(first.committed())
    if keeps_promises:
        assert told.promised <= known
    await first.round()
    await first.store.flusher.flush()
    await first._offsets.file.save()
    again = Life(left.after_kill(), clock, flush, told)
    await again.open()
    for _ in range(ROUNDS):
        clock.move(60)
        await again.round()
    wanted = {key for key in known if told.decisions[key] == COMMIT}
    assert again.committed() == Counter(wanted)
    assert again.transactions.ended.cursor == again.store.append_offset(HALF_TOPIC, 0)


def run(script: Callable[[], Any]) -> None:
    asyncio.run(script())


@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_kill_each_transaction_ends_once_and_as_it_should(flush: FlushDiskType) -> None:
    for stop_after, life in every_stop(flush):
        with noted(f"killed after {stop_after}"):
            run(lambda life=life: go_on(life.disk.after_kill(), life.told, flush, keeps_promises=True))  # type: ignore[misc]


@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_power_cut_too(flush: FlushDiskType) -> None:
    """Under ASYNC_FLUSH it may take half messages, but none that the log still knows is forgotten."""
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    for stop_after, life in every_stop(flush):
        for number, left in enumerate(life.disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with noted(f"cut after {stop_after}, image {number}"):
                run(lambda left=left, life=life: go_on(left, life.told, flush, keeps_promises=is_sync))  # type: ignore[misc]


@contextlib.contextmanager
def noted(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
