"""Which delayed messages are due, and how they are delivered."""

import itertools
import logging

import pytest

from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.properties import mark, remove
from kerolox.message.records.record import decode, encode, stamp
from kerolox.message.records.summary import RecordSummary
from kerolox.store.delay import due_messages as due_module
from kerolox.store.delay.delay_levels import DELAY_MARK, HALF_TOPIC, SCHEDULE_TOPIC, diversion, restore_message
from kerolox.store.delay.due_messages import Due, DueMessages
from kerolox.store.log.commit_log import Append
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.store import Store
from tests.golden import records as golden
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, StillClock, config, draft, opened, put

LEVELS = {1: 1000, 2: 5000}
ENCODER = MessageEncoder({DELAY_MARK: diversion(LEVELS)})


class DelayedMessages:
    """A store with two delay levels, and its clock."""

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
        put(self.store, ENCODER.encode(Message("orders", body, text + b"DELAY\x01%d\x02" % level, 2)))

    def queue(self, level: int = 1) -> ConsumeQueue:
        found = self.store.queues.get(SCHEDULE_TOPIC, level - 1)
        assert found is not None
        return found

    def due(self, offset: int = 0, level: int = 1, *, checked_until: int = 0) -> Due:
        finder = DueMessages(self.store.reader, LEVELS, append_size_max=self.store.log.append_size_max)
        if checked_until:
            finder.check_deliveries_before({level: self.queue(level).max_offset}, checked_until)
        return finder.find(level, offset, self.clock.millis())


def bodies(found: Due) -> list[bytes]:
    return [decode(append.records).body for append in found.appends]


def test_nothing_is_due_a_millisecond_early() -> None:
    delayed = DelayedMessages()
    delayed.send(level=2)
    delayed.clock.move(4.999)

    assert delayed.due(level=2) == Due([], [], 0, 0.001)

    delayed.clock.move(0.001)
    assert bodies(delayed.due(level=2)) == [b"body"]


def test_due_messages_are_found_up_to_the_first_that_is_not_due() -> None:
    delayed = DelayedMessages()
    delayed.send(b"one")
    delayed.send(b"two")
    delayed.clock.move(0.5)
    delayed.send(b"three")
    delayed.clock.move(0.5)

    found = delayed.due()

    assert bodies(found) == [b"one", b"two"]
    assert (found.next_offsets, found.end_offset, found.seconds) == ([1, 2], 2, 0.5)
    assert delayed.due(3) == Due([], [], 3, None)


def test_a_message_is_restored_for_its_own_queue_and_keeps_its_properties() -> None:
    delayed = DelayedMessages()
    delayed.send(TAGS="red")
    delayed.clock.move(1)

    (append,) = delayed.due().appends

    assert (append.topic, append.queue_id, append.is_queued) == ("orders", 2, True)
    assert (
        decode(append.records).properties == b"TAGS\x01red\x02DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x012\x02"
    )


def test_no_message_is_delayed_longer_than_its_level_after_the_clock_was_set_back() -> None:
    delayed = DelayedMessages()
    delayed.send()
    delayed.clock.move(-0.001)

    assert bodies(delayed.due()) == [b"body"]


def test_an_entry_without_a_time_is_due_by_the_store_time_of_its_record() -> None:
    """With enableConsumeQueueExt Java stores the address of a unit there."""
    delayed = DelayedMessages()
    records = encode(Message(SCHEDULE_TOPIC, b"body", b"REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"))
    put(delayed.store, Append(SCHEDULE_TOPIC, 0, records))
    entry = delayed.queue().entry(0)
    assert entry is not None
    assert entry.tags_code == 0

    assert delayed.due().seconds == 1.0

    delayed.clock.move(1)
    assert bodies(delayed.due()) == [b"body"]


def test_one_delivery_is_limited_in_count_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    delayed = DelayedMessages()
    for number in range(7):
        delayed.send(b"%d" % number * 500)
    delayed.clock.move(1)
    monkeypatch.setattr(due_module, "COUNT_MAX", 5)

    assert delayed.due().end_offset == 5

    monkeypatch.setattr(due_module, "BYTES_MAX", 1500)
    assert delayed.due().end_offset == 2
    monkeypatch.setattr(due_module, "BYTES_MAX", 1)
    assert delayed.due().end_offset == 1


# Undeliverable messages


def test_a_damaged_message_does_not_block_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    delayed = DelayedMessages()
    for body in (b"first", b"second", b"third"):
        delayed.send(body)
    data = delayed.disk.content(LOG / f"{0:020d}")
    delayed.disk.overwrite(LOG / f"{0:020d}", data.index(b"first"), b"f1rst")
    delayed.disk.overwrite(LOG / f"{0:020d}", data.index(b"second") - 88, bytes(8))
    delayed.clock.move(1)

    found = delayed.due()

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
def test_a_message_without_a_valid_real_topic_is_skipped(properties: str, caplog: pytest.LogCaptureFixture) -> None:
    delayed = DelayedMessages()
    records = encode(Message(SCHEDULE_TOPIC, b"lost", f"DELAY\x011\x02{properties}\x02".encode()))
    put(delayed.store, Append(SCHEDULE_TOPIC, 0, records))
    delayed.send(b"next")
    delayed.clock.move(1)

    assert bodies(delayed.due()) == [b"next"]
    assert "is not delivered" in caplog.text


def test_a_message_larger_than_a_file_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    delayed = DelayedMessages()
    delayed.send(b"large" * 100)
    delayed.clock.move(1)
    finder = DueMessages(delayed.store.reader, LEVELS, append_size_max=500)

    assert finder.find(1, 0, delayed.clock.millis()) == Due([], [], 1, None)
    assert "at most 500" in caplog.text


def test_fillers_are_skipped() -> None:
    delayed = DelayedMessages()
    put(delayed.store, draft(b"x" * 500))
    delayed.send()
    entry = delayed.queue().entry(0)
    assert entry is not None
    delayed.queue().cut(0)
    delayed.queue().append(2, *entry)
    delayed.clock.move(1)

    found = delayed.due()

    assert (bodies(found), found.next_offsets) == ([b"body"], [3])


# Messages delivered before a restart


def test_messages_delivered_before_the_restart_are_not_delivered_again(caplog: pytest.LogCaptureFixture) -> None:
    delayed = DelayedMessages()
    caplog.set_level(logging.DEBUG, "kerolox.store.delay.due_messages")
    for number in range(3):
        delayed.send(b"%d" % number, UNIQ_KEY=f"{number:032d}")
    delayed.send(b"3")
    delayed.clock.move(1)
    put(delayed.store, *[delayed.due().appends[number] for number in (0, 2, 3)])
    delayed.kill()

    found = delayed.due(checked_until=delayed.clock.millis())

    # The last has no unique key, so it cannot be found.
    assert bodies(found) == [b"1", b"3"]
    assert (found.next_offsets, found.end_offset) == ([2, 4], 4)
    assert caplog.text.count("delivered before") == 2


def test_only_an_identical_record_counts_as_delivered() -> None:
    delayed = DelayedMessages()
    key = "k" * 32
    # The same message is in the log before the delayed one, and another with its key after it.
    put(delayed.store, draft(b"body", "orders", 2, UNIQ_KEY=key, DELAY="1", REAL_TOPIC="orders", REAL_QID="2"))
    delayed.send(UNIQ_KEY=key)
    put(delayed.store, draft(b"b0dy", "orders", 2, UNIQ_KEY=key, DELAY="1", REAL_TOPIC="orders", REAL_QID="2"))
    delayed.clock.move(1)

    assert bodies(delayed.due(checked_until=delayed.clock.millis())) == [b"body"]


def test_messages_not_due_before_the_restart_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    delayed = DelayedMessages()
    delayed.send(UNIQ_KEY="k" * 32)
    ended = delayed.clock.millis() + 500
    delayed.clock.move(1)
    asked: list[bytes] = []

    def find(topic: str, key: bytes) -> list[RecordSummary]:
        asked.append(key)
        return []

    monkeypatch.setattr(delayed.store.reader, "find", find)

    assert bodies(delayed.due(checked_until=ended)) == [b"body"]
    assert asked == []
    assert bodies(delayed.due(checked_until=ended + 500)) == [b"body"]
    # The clock was ahead when the message was stored, and was set back: it may have been delivered as due.
    assert bodies(delayed.due(checked_until=ended - 501)) == [b"body"]
    assert asked == [b"k" * 32] * 2
    # Without a restart nothing is looked up.
    assert bodies(delayed.due()) == [b"body"]
    assert len(asked) == 2


# Java


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_delivered_message_has_the_bytes_of_java(version: str) -> None:
    kept = [kept for kept in golden.load(version) if kept.case.endswith(("/delay", "/retry"))]
    compared = 0
    for waited, delivered in itertools.pairwise(kept):
        if decode(waited.record).topic == SCHEDULE_TOPIC:
            stored = decode(delivered.record)
            records = encode(restore_message(decode(waited.record)))
            stamp(records, stored.queue_offset, stored.physical_offset, stored.store_timestamp)
            if waited.case.startswith("crc/"):
                # Java's broker was configured to add a checksum; ours adds none.
                assert decode(records).properties == remove(stored.properties, mark("__CRC32#"))
            else:
                assert records == delivered.record
            compared += 1
    assert compared >= 3


def test_a_delivered_commit_has_no_prepared_transaction_offset() -> None:
    """As in Java, which does not copy the offset of the half message."""
    waited = Message(
        SCHEDULE_TOPIC,
        b"",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x010\x02",
        sys_flag=sysflag.COMMIT,
        prepared_transaction_offset=77,
    )

    assert restore_message(waited).prepared_transaction_offset == 0
    assert restore_message(waited).sys_flag == sysflag.COMMIT
