"""The machine stops after every operation while delayed messages are delivered, and goes on from what is left."""

import contextlib
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kerolox.message.message import Message
from kerolox.message.peek import peek
from kerolox.message.record import decode
from kerolox.store.configuration import FlushDiskType
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.drafts import Drafts
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import StillClock, config, new_store, numbered_records, put, run, without_threads

LEVELS = "1s 3s 5s"
DELAYS = parse_levels(LEVELS)
DRAFTS = Drafts({DELAY_MARK: diversion(DELAYS)})
TOPICS = ("orders", "bills")
SEEDS = range(int(os.environ.get("KEROLOX_CRASH_SEEDS", "1")))
IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "1"))


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


@dataclass
class Told:
    """What a test knows of the messages, by body."""

    # When each was sent at the earliest, and its level.
    sent: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # Those whose sender was told that they are stored.
    promised: set[bytes] = field(default_factory=set)
    # Those that were delivered before the last offsets were written, and so cannot come again.
    settled: set[bytes] = field(default_factory=set)


class Life:
    """Sends and delivers on a disk that may stop at any moment."""

    def __init__(self, disk: SimulatedDisk, clock: StillClock, flush: FlushDiskType, told: Told) -> None:
        self.disk = disk
        self.told = told
        self._clock = clock
        self._flush = flush
        self.store = new_store(disk, config(flush, message_delay_level=LEVELS), clock)
        self.delivery = ScheduledDelivery(self.store, clock=clock, disk=disk)

    def open(self) -> None:
        self.store.recover()
        self.delivery.load()

    def script(self, seed: int, *, with_keys: bool) -> None:
        chance = random.Random(seed)
        self.open()
        for step in range(7):
            for _ in range(chance.randint(1, 3)):
                self._send(chance, with_key=with_keys)
            self._clock.move(chance.choice((0.2, 1.0, 2.5)))
            self.deliver()
            if step % 3 == 2:
                self._persist()
            if step % 4 == 3:
                run(self.store.behind.flush())
        self._persist()
        run(self.delivery.close())
        run(self.store.close())

    def _send(self, chance: random.Random, *, with_key: bool) -> None:
        number = len(self.told.sent)
        body, level = b"message %d" % number, chance.choice(list(DELAYS))
        key = b"UNIQ_KEY\x01%032d\x02" % number if with_key else b""
        self.told.sent[body] = self._clock.millis(), level
        put(self.store, DRAFTS.one(Message(chance.choice(TOPICS), body, key + b"DELAY\x01%d\x02" % level)))
        if self._flush is FlushDiskType.SYNC_FLUSH:
            run(self.store.flusher.flush())
        self.told.promised.add(body)

    def deliver(self) -> None:
        for level in DELAYS:
            while self.delivery.deliver(level) == 0.0:
                if self._flush is FlushDiskType.SYNC_FLUSH:
                    run(self.store.flusher.flush())

    def _persist(self) -> None:
        delivered = set(self.delivered())
        run(self.delivery.persist())
        self.told.settled |= delivered

    def delivered(self) -> Counter[bytes]:
        """How often each message came, none of them before its time."""
        found: Counter[bytes] = Counter()
        for topic in TOPICS:
            for _, record in numbered_records(self.store, topic, 0):
                body = decode(record).body
                sent, level = self.told.sent[body]
                assert peek(record).store_timestamp >= sent + DELAYS[level]
                found[body] += 1
        return found

    def waiting(self) -> set[bytes]:
        return {
            decode(record).body
            for level in DELAYS
            for _, record in numbered_records(self.store, SCHEDULE_TOPIC, level - 1)
        }


def run_until(stop_after: int | None, flush: FlushDiskType, seed: int, *, with_keys: bool) -> Life:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    life = Life(disk, StillClock(), flush, Told())
    with contextlib.suppress(Stopped):
        life.script(seed, with_keys=with_keys)
    return life


def every_stop(flush: FlushDiskType, seed: int, *, with_keys: bool) -> Iterator[tuple[int, Life]]:
    whole = run_until(None, flush, seed, with_keys=with_keys)
    assert len(whole.told.settled) >= 5
    for stop_after in range(whole.disk.operations):
        yield stop_after, run_until(stop_after, flush, seed, with_keys=with_keys)


def check(
    left: SimulatedDisk, life: Life, flush: FlushDiskType, *, with_keys: bool, keeps_promises: bool = True
) -> None:
    """Goes on with what was left until nothing waits any more, and stops once more on the way."""
    clock = StillClock(1_700_000_100_000)
    first = Life(left, clock, flush, life.told)
    first.open()
    known = first.waiting()
    if keeps_promises:
        assert life.told.promised <= known
    for level in DELAYS:
        first.delivery.deliver(level)
    run(first.store.flusher.flush())
    again = Life(left.after_kill(), clock, flush, life.told)
    again.open()
    again.deliver()
    delivered = again.delivered()
    assert known <= delivered.keys()
    for body, count in delivered.items():
        if with_keys or (body in life.told.settled and keeps_promises):
            assert count == 1, body
        assert count <= 3, body
    run(again.delivery.close())
    run(again.store.close())
    last = Life(again.disk, clock, flush, life.told)
    last.open()
    last.deliver()
    assert last.delivered() == delivered


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_kill_each_message_comes_on_time_and_with_a_key_once(flush: FlushDiskType, with_keys: bool) -> None:
    for seed in SEEDS:
        for stop_after, life in every_stop(flush, seed, with_keys=with_keys):
            with told(f"seed {seed}, killed after {stop_after}"):
                check(life.disk.after_kill(), life, flush, with_keys=with_keys)


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_power_cut_too(flush: FlushDiskType, with_keys: bool) -> None:
    """Under ASYNC_FLUSH it may take messages, but none of which the log still knows that it waited."""
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    for stop_after, life in every_stop(flush, seed=7, with_keys=with_keys):
        for number, left in enumerate(life.disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with told(f"cut after {stop_after}, image {number}"):
                check(left, life, flush, with_keys=with_keys, keeps_promises=is_sync)


@contextlib.contextmanager
def told(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
