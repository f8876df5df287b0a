"""The machine stops after every operation while delayed messages are delivered, and is restarted."""

import contextlib
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.message.records.summary import peek
from kerolox.store.config import FlushDiskType
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.message_encoder import MessageEncoder
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import StillClock, config, new_store, numbered_records, put, run, without_threads

LEVELS = "1s 3s 5s"
DELAYS = parse_levels(LEVELS)
ENCODER = MessageEncoder({DELAY_MARK: diversion(DELAYS)})
TOPICS = ("orders", "bills")
SEEDS = range(int(os.environ.get("KEROLOX_CRASH_SEEDS", "1")))
IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "1"))


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


@dataclass
class Expected:
    """State of the messages as the test knows it, by body."""

    # Body → send time and delay level.
    sent: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # Messages that were acknowledged.
    acknowledged: set[bytes] = field(default_factory=set)
    # Messages delivered before the offsets were last saved, which must not be delivered again.
    saved: set[bytes] = field(default_factory=set)


class Workload:
    """Sends and delivers on a disk that may stop at any operation."""

    def __init__(self, disk: SimulatedDisk, clock: StillClock, flush: FlushDiskType, expected: Expected) -> None:
        self.disk = disk
        self.expected = expected
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
                run(self.store.flush_behind.flush())
        self._persist()
        run(self.delivery.close())
        run(self.store.close())

    def _send(self, chance: random.Random, *, with_key: bool) -> None:
        number = len(self.expected.sent)
        body, level = b"message %d" % number, chance.choice(list(DELAYS))
        key = b"UNIQ_KEY\x01%032d\x02" % number if with_key else b""
        self.expected.sent[body] = self._clock.millis(), level
        put(self.store, ENCODER.encode(Message(chance.choice(TOPICS), body, key + b"DELAY\x01%d\x02" % level)))
        if self._flush is FlushDiskType.SYNC_FLUSH:
            run(self.store.flusher.flush())
        self.expected.acknowledged.add(body)

    def deliver(self) -> None:
        for level in DELAYS:
            while self.delivery.deliver(level) == 0.0:
                if self._flush is FlushDiskType.SYNC_FLUSH:
                    run(self.store.flusher.flush())

    def _persist(self) -> None:
        delivered = set(self.delivered())
        run(self.delivery.persist())
        self.expected.saved |= delivered

    def delivered(self) -> Counter[bytes]:
        """Return how often each message was delivered; check that none was early."""
        found: Counter[bytes] = Counter()
        for topic in TOPICS:
            for _, record in numbered_records(self.store, topic, 0):
                body = decode(record).body
                sent, level = self.expected.sent[body]
                assert peek(record).store_timestamp >= sent + DELAYS[level]
                found[body] += 1
        return found

    def waiting(self) -> set[bytes]:
        return {
            decode(record).body
            for level in DELAYS
            for _, record in numbered_records(self.store, SCHEDULE_TOPIC, level - 1)
        }


def run_until(stop_after: int | None, flush: FlushDiskType, seed: int, *, with_keys: bool) -> Workload:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    workload = Workload(disk, StillClock(), flush, Expected())
    with contextlib.suppress(Stopped):
        workload.script(seed, with_keys=with_keys)
    return workload


def every_stop(flush: FlushDiskType, seed: int, *, with_keys: bool) -> Iterator[tuple[int, Workload]]:
    whole = run_until(None, flush, seed, with_keys=with_keys)
    assert len(whole.expected.saved) >= 5
    for stop_after in range(whole.disk.operations):
        yield stop_after, run_until(stop_after, flush, seed, with_keys=with_keys)


def check(
    left: SimulatedDisk, workload: Workload, flush: FlushDiskType, *, with_keys: bool, keeps_acknowledged: bool = True
) -> None:
    """Restart from the remaining files until everything is delivered, with another stop on the way."""
    clock = StillClock(1_700_000_100_000)
    first = Workload(left, clock, flush, workload.expected)
    first.open()
    known = first.waiting()
    if keeps_acknowledged:
        assert workload.expected.acknowledged <= known
    for level in DELAYS:
        first.delivery.deliver(level)
    run(first.store.flusher.flush())
    again = Workload(left.after_kill(), clock, flush, workload.expected)
    again.open()
    again.deliver()
    delivered = again.delivered()
    assert known <= delivered.keys()
    for body, count in delivered.items():
        if with_keys or (body in workload.expected.saved and keeps_acknowledged):
            assert count == 1, body
        assert count <= 3, body
    run(again.delivery.close())
    run(again.store.close())
    last = Workload(again.disk, clock, flush, workload.expected)
    last.open()
    last.deliver()
    assert last.delivered() == delivered


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_kill_messages_are_delivered_on_time_and_once_if_they_have_keys(
    flush: FlushDiskType, with_keys: bool
) -> None:
    for seed in SEEDS:
        for stop_after, workload in every_stop(flush, seed, with_keys=with_keys):
            with with_note(f"seed {seed}, killed after {stop_after}"):
                check(workload.disk.after_kill(), workload, flush, with_keys=with_keys)


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_power_cut_messages_are_delivered_on_time_and_once_if_they_have_keys(
    flush: FlushDiskType, with_keys: bool
) -> None:
    """Under ASYNC_FLUSH messages may be lost, but none whose delayed record is still in the log."""
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    for stop_after, workload in every_stop(flush, seed=7, with_keys=with_keys):
        for number, left in enumerate(workload.disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with with_note(f"cut after {stop_after}, image {number}"):
                check(left, workload, flush, with_keys=with_keys, keeps_acknowledged=is_sync)


@contextlib.contextmanager
def with_note(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
