"""Which delayed messages are due, and what becomes of them."""

import itertools
import logging

import pytest

from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.properties import mark, remove
from kerolox.message.record import decode, encode, stamp
from kerolox.store.delay import due as due_module
from kerolox.store.delay.delays import DELAY_MARK, HALF_TOPIC, SCHEDULE_TOPIC, diversion, restored
from kerolox.store.delay.due import Due, DueMessages
from kerolox.store.drafts import Drafts
from kerolox.store.log.commit_log import Draft
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.store import Store
from tests.golden import records as golden
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, StillClock, config, draft, opened, put

LEVELS = {1: 1000, 2: 5000}
DRAFTS = Drafts({DELAY_MARK: diversion(LEVELS)})


class Waiting:
    """A store with two levels, and its clock."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.disk = SimulatedDisk()
        self.store = self._opened()

    def _opened(self) -> Store:
        return opened(self.disk, config(message_delay_level="1s 5s", message_index_enable=True), self.clock)

    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self.store = self._opened()

    def send(self, body: bytes = b"body", level: int = 1, **properties: str) -> None:
        text = b"".join(f"{name}\x01{value}\x02".encode() for name, value in properties.items())
        put(self.store, DRAFTS.one(Message("orders", body, text + b"DELAY\x01%d\x02" % level, 2)))

    def queue(self, level: int = 1) -> ConsumeQueue:
        found = self.store.queues.get(SCHEDULE_TOPIC, level - 1)
        assert found is not None
        return found

    def due(self, offset: int = 0, level: int = 1, *, doubted_until: int = 0) -> Due:
        finder = DueMessages(self.store.reader, LEVELS, draft_size_max=self.store.log.draft_size_max)
        if doubted_until:
            finder.doubt({level: self.queue(level).max_offset}, doubted_until)
        return finder.find(level, self.queue(level), offset, self.clock.millis())


def bodies(found: Due) -> list[bytes]:
    return [decode(made.records).body for made in found.drafts]


def test_nothing_is_due_a_millisecond_early() -> None:
    waiting = Waiting()
    waiting.send(level=2)
    waiting.clock.move(4.999)

    assert waiting.due(level=2) == Due([], [], 0, 0.001)

    waiting.clock.move(0.001)
    assert bodies(waiting.due(level=2)) == [b"body"]


def test_what_is_due_is_found_up_to_the_first_that_is_not() -> None:
    waiting = Waiting()
    waiting.send(b"one")
    waiting.send(b"two")
    waiting.clock.move(0.5)
    waiting.send(b"three")
    waiting.clock.move(0.5)

    found = waiting.due()

    assert bodies(found) == [b"one", b"two"]
    assert (found.next_offsets, found.end_offset, found.seconds) == ([1, 2], 2, 0.5)
    assert waiting.due(3) == Due([], [], 3, None)


def test_a_message_is_restored_for_its_own_queue_and_keeps_its_properties() -> None:
    waiting = Waiting()
    waiting.send(TAGS="red")
    waiting.clock.move(1)

    (made,) = waiting.due().drafts

    assert (made.topic, made.queue_id, made.is_queued) == ("orders", 2, True)
    assert decode(made.records).properties == b"TAGS\x01red\x02DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x012\x02"


def test_a_clock_that_was_set_back_lets_nobody_wait_longer_than_the_level_says() -> None:
    waiting = Waiting()
    waiting.send()
    waiting.clock.move(-0.001)

    assert bodies(waiting.due()) == [b"body"]


def test_an_entry_that_says_no_time_is_due_by_the_store_time_of_its_record() -> None:
    """Java may have kept an address in another file there (enableConsumeQueueExt)."""
    waiting = Waiting()
    records = encode(Message(SCHEDULE_TOPIC, b"body", b"REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"))
    put(waiting.store, Draft(SCHEDULE_TOPIC, 0, records))
    entry = waiting.queue().entry(0)
    assert entry is not None
    assert entry.tags_code == 0

    assert waiting.due().seconds == 1.0

    waiting.clock.move(1)
    assert bodies(waiting.due()) == [b"body"]


def test_one_write_carries_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    for number in range(7):
        waiting.send(b"%d" % number * 500)
    waiting.clock.move(1)
    monkeypatch.setattr(due_module, "COUNT_MAX", 5)

    assert waiting.due().end_offset == 5

    monkeypatch.setattr(due_module, "BYTES_MAX", 1500)
    assert waiting.due().end_offset == 2
    monkeypatch.setattr(due_module, "BYTES_MAX", 1)
    assert waiting.due().end_offset == 1


# What cannot be delivered


def test_a_damaged_message_does_not_hold_up_those_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    for body in (b"first", b"second", b"third"):
        waiting.send(body)
    data = waiting.disk.content(LOG / f"{0:020d}")
    waiting.disk.overwrite(LOG / f"{0:020d}", data.index(b"first"), b"f1rst")
    waiting.disk.overwrite(LOG / f"{0:020d}", data.index(b"second") - 88, bytes(8))
    waiting.clock.move(1)

    found = waiting.due()

    assert bodies(found) == [b"third"]
    assert (found.next_offsets, found.end_offset) == ([3], 3)
    assert ["CRC" in line or "damaged" in line for line in caplog.messages] == [True, True]


@pytest.mark.parametrize(
    "properties",
    [
        f"REAL_TOPIC\x01{HALF_TOPIC}\x02REAL_QID\x010",
        f"REAL_TOPIC\x01{SCHEDULE_TOPIC}\x02REAL_QID\x010",
        "REAL_TOPIC\x01../escape\x02REAL_QID\x010",
        f"REAL_TOPIC\x01{'t' * 128}\x02REAL_QID\x010",
        "REAL_TOPIC\x01orders\x02REAL_QID\x01x",
        "REAL_TOPIC\x01orders\x02REAL_QID\x01-1",
        "REAL_TOPIC\x01orders",
        "REAL_QID\x011",
    ],
)
def test_a_message_that_belongs_nowhere_is_passed_over(properties: str, caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    records = encode(Message(SCHEDULE_TOPIC, b"lost", f"DELAY\x011\x02{properties}\x02".encode()))
    put(waiting.store, Draft(SCHEDULE_TOPIC, 0, records))
    waiting.send(b"next")
    waiting.clock.move(1)

    assert bodies(waiting.due()) == [b"next"]
    assert "is not delivered" in caplog.text


def test_a_message_that_fits_into_no_file_any_more_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    waiting.send(b"large" * 100)
    waiting.clock.move(1)
    finder = DueMessages(waiting.store.reader, LEVELS, draft_size_max=500)

    assert finder.find(1, waiting.queue(), 0, waiting.clock.millis()) == Due([], [], 1, None)
    assert "at most 500" in caplog.text


def test_fillers_are_passed_over() -> None:
    waiting = Waiting()
    put(waiting.store, draft(b"x" * 500))
    waiting.send()
    entry = waiting.queue().entry(0)
    assert entry is not None
    waiting.queue().cut(0)
    waiting.queue().append(2, *entry)
    waiting.clock.move(1)

    found = waiting.due()

    assert (bodies(found), found.next_offsets) == ([b"body"], [3])


# What was delivered before


def test_what_the_log_has_already_is_not_delivered_again(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    caplog.set_level(logging.DEBUG, "kerolox.store.delay.due")
    for number in range(3):
        waiting.send(b"%d" % number, UNIQ_KEY=f"{number:032d}")
    waiting.send(b"3")
    waiting.clock.move(1)
    put(waiting.store, *[waiting.due().drafts[number] for number in (0, 2, 3)])
    waiting.kill()

    found = waiting.due(doubted_until=waiting.clock.millis())

    # The last has no unique key by which it could be found.
    assert bodies(found) == [b"1", b"3"]
    assert (found.next_offsets, found.end_offset) == ([2, 4], 4)
    assert caplog.text.count("delivered before") == 2


def test_only_the_very_same_record_counts_as_delivered() -> None:
    waiting = Waiting()
    key = "k" * 32
    # The same message came before it waited, and another with its key after that.
    put(waiting.store, draft(b"body", "orders", 2, UNIQ_KEY=key, DELAY="1", REAL_TOPIC="orders", REAL_QID="2"))
    waiting.send(UNIQ_KEY=key)
    put(waiting.store, draft(b"b0dy", "orders", 2, UNIQ_KEY=key, DELAY="1", REAL_TOPIC="orders", REAL_QID="2"))
    waiting.clock.move(1)

    assert bodies(waiting.due(doubted_until=waiting.clock.millis())) == [b"body"]


def test_what_was_not_due_in_an_earlier_life_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    waiting.send(UNIQ_KEY="k" * 32)
    ended = waiting.clock.millis() + 500
    waiting.clock.move(1)
    asked = []
    monkeypatch.setattr(waiting.store.reader, "find", lambda topic, key: asked.append(key) or [])

    assert bodies(waiting.due(doubted_until=ended)) == [b"body"]
    assert asked == []
    assert bodies(waiting.due(doubted_until=ended + 500)) == [b"body"]
    # The clock had been set forward when the message came, and was set back: it may have been taken for due.
    assert bodies(waiting.due(doubted_until=ended - 501)) == [b"body"]
    assert asked == [b"k" * 32] * 2
    # Without an earlier life there is no doubt.
    assert bodies(waiting.due()) == [b"body"]
    assert len(asked) == 2


# Java


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_what_is_delivered_has_the_bytes_of_java(version: str) -> None:
    kept = [kept for kept in golden.load(version) if kept.case.endswith(("/delay", "/retry"))]
    compared = 0
    for waited, delivered in itertools.pairwise(kept):
        if decode(waited.record).topic == SCHEDULE_TOPIC:
            stored = decode(delivered.record)
            records = encode(restored(decode(waited.record)))
            stamp(records, stored.queue_offset, stored.physical_offset, stored.store_timestamp)
            if waited.case.startswith("crc/"):
                # The broker was told to add a checksum of its own; ours adds none.
                assert decode(records).properties == remove(stored.properties, mark("__CRC32#"))
            else:
                assert records == delivered.record
            compared += 1
    assert compared >= 3


def test_a_committed_message_is_delivered_as_one_without_its_half() -> None:
    """As in Java, which does not copy where the half message lies."""
    waited = Message(
        SCHEDULE_TOPIC,
        b"",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x010\x02",
        sys_flag=sysflag.COMMIT,
        prepared_transaction_offset=77,
    )

    assert restored(waited).prepared_transaction_offset == 0
    assert restored(waited).sys_flag == sysflag.COMMIT
