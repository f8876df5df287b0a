"""Dispatching records to queues and index."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.batch import Part
from kerolox.message.records.batch import encode as encode_parts
from kerolox.message.records.columns import Columns
from kerolox.message.records.summary import RecordSummary
from kerolox.message.tags import key_hash, tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, diversion
from kerolox.store.dispatcher import Dispatcher, DispatchRules
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.layout import ENTRY, IndexShape
from kerolox.store.log.commit_log import Append, Appended, CommitLog
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import OpenFiles
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.message_waiters import MessageWaiters
from kerolox.store.queue.queues import Queues
from tests.store.disks import SimulatedDisk
from tests.store.stores import batch, draft, draft_of_size, segments

NOW = 1_700_000_000_000


class DispatchedLog:
    """A log with queues and index."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.log = CommitLog(segments(self.disk))
        self.queues = Queues(OpenFiles(self.disk, 10), Path("/store/consumequeue"), 160)
        self.index = KeyIndex(OpenFiles(self.disk, 10), Path("/store/index"), ManualClock(), shape=IndexShape(16, 64))
        self.next_offsets: Counter[tuple[str, int]] = Counter()
        levels = {1: 1000, 2: 5000}
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, MessageWaiters(), DispatchRules(levels))

    def append(self, *appends: Append) -> None:
        self.log.append(appends, [0] * len(appends), NOW)

    def dispatch(self) -> None:
        self.dispatcher.dispatch_until(self.log.end_offset)

    def count(self, topic: str = "orders", queue_id: int = 0) -> int:
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset


@pytest.mark.parametrize(
    ("kind", "is_queued", "is_indexed"),
    [
        (sysflag.NOT_TRANSACTION, True, True),
        (sysflag.COMMIT, True, True),
        (sysflag.PREPARED, False, True),
        (sysflag.ROLLBACK, False, False),
    ],
)
def test_only_plain_and_committed_messages_are_in_queues(kind: int, is_queued: bool, is_indexed: bool) -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(sys_flag=kind, KEYS="k"))

    dispatched.dispatch()

    assert dispatched.count() == is_queued
    assert dispatched.index.query("orders", b"k", 10) == [0] * is_indexed
    assert dispatched.dispatcher.offset == dispatched.log.end_offset


def test_the_index_has_unique_key_keys_and_tag_in_the_order_of_java_5_5() -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(TAGS="red", KEYS="a  b", UNIQ_KEY="u"), draft(TAGS="red"), draft(topic="other"))

    dispatched.dispatch()
    dispatched.index.flush().run()

    (path,) = dispatched.index.paths
    content = dispatched.disk.read(path) or b""
    at = IndexShape(16, 64).entries_position
    hashes = [ENTRY.unpack_from(content, at + number * ENTRY.size)[0] for number in range(1, 7)]
    assert hashes == [*(key_hash("orders", key) for key in (b"u", b"a", b"b", b"T#red", b"T#red")), 0]


def test_an_entry_has_the_tags_code() -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(TAGS="red"))

    dispatched.dispatch()

    entry = dispatched.queues.find("orders", 0).entry(0)
    assert entry is not None
    assert entry == (0, dispatched.log.end_offset, tags_code(b"red"))


@pytest.mark.parametrize(("level", "delay"), [("1", 1000), ("2", 5000), ("9", 5000), ("+2", 5000)])
def test_an_entry_of_the_schedule_topic_has_the_delivery_time(level: str, delay: int) -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(topic=SCHEDULE_TOPIC, DELAY=level, TAGS="red"))

    dispatched.dispatch()

    entry = dispatched.queues.find(SCHEDULE_TOPIC, 0).entry(0)
    assert entry is not None
    assert entry.tags_code == NOW + delay


def test_all_keys_and_the_unique_key_are_indexed() -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(KEYS="a b  c", UNIQ_KEY="u" * 32))

    dispatched.dispatch()

    assert [dispatched.index.query("orders", key, 10) for key in (b"a", b"b", b"c", b"u" * 32, b"", b"a b")] == [
        [0],
        [0],
        [0],
        [0],
        [],
        [],
    ]


def test_records_are_dispatched_across_blanks_and_in_parts() -> None:
    dispatched = DispatchedLog()
    for number in range(30):
        dispatched.log.append([draft_of_size(700 + number)], [number], NOW)
        if number % 4 == 0:
            dispatched.dispatch()

    dispatched.dispatch()

    assert dispatched.count("t") == 30


def test_dispatching_again_changes_nothing() -> None:
    dispatched = DispatchedLog()
    dispatched.log.append([batch([b"a", b"b", b"c"], KEYS="k")], [0], NOW)
    dispatched.dispatch()

    dispatched.dispatcher.load(0)
    dispatched.dispatch()

    assert dispatched.count() == 3
    assert len(dispatched.index.query("orders", b"k", 10)) == 3


def record(
    number: int, queue_id: int, queue_offset: int, kind: int, topic: str, keys: bytes, tag: bytes
) -> RecordSummary:
    unique_key = b"%032d" % number if number % 3 else b""
    offset, timestamp = number * 200, NOW + number * 700
    properties = b"DELAY\x011\x02"
    return RecordSummary(
        200, topic, queue_id, queue_offset, offset, kind, timestamp, properties, number, keys, unique_key, tag
    )


records = st.lists(
    st.tuples(
        st.integers(0, 2),
        # Some queue offsets are skipped, and some repeated.
        st.sampled_from([0] * 8 + [1, -1]),
        st.sampled_from([sysflag.NOT_TRANSACTION, sysflag.COMMIT, sysflag.PREPARED, sysflag.ROLLBACK]),
        st.sampled_from(["orders", "orders", "bills", "no/topic", SCHEDULE_TOPIC]),
        st.sampled_from([b"", b"a", b"a b  c", b" d", "größe".encode(), b"x" * 70]),
        st.sampled_from([b"", b"tag"]),
    ),
    min_size=1,
    max_size=60,
)


@given(records, st.integers(0, 60), st.integers(1, 60))
def test_columns_are_dispatched_like_records_one_by_one(
    drawn: list[tuple[int, int, int, str, bytes, bytes]], known: int, at_once: int
) -> None:
    offsets: dict[tuple[str, int], int] = {}
    run = []
    for number, (queue_id, jump, kind, topic, keys, tag) in enumerate(drawn):
        queue_offset = max(0, offsets.get((topic, queue_id), 0) + jump)
        if sysflag.is_queued(kind):
            offsets[topic, queue_id] = queue_offset + 1
        run.append(record(number, queue_id, queue_offset, kind, topic, keys, tag))
    one, many = DispatchedLog(), DispatchedLog()
    for each in run[:known]:
        many.dispatcher.dispatch(each)

    for each in run:
        one.dispatcher.dispatch(each)
    for first in range(0, len(run), at_once):
        many.dispatcher.dispatch_columns(Columns.of(run[first : first + at_once]))

    for dispatched in (one, many):
        dispatched.queues.flush()
        dispatched.index.close()
    assert contents(many) == contents(one)
    assert (many.dispatcher.offset, many.dispatcher.timestamp) == (one.dispatcher.offset, one.dispatcher.timestamp)
    assert many.queues.backlog.entries == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=60), st.integers(0, 60))
def test_columns_of_uniform_records_are_dispatched_like_records_one_by_one(
    drawn: list[tuple[int, bool]], known: int
) -> None:
    offsets: Counter[tuple[str, int]] = Counter()
    run = []
    for number, (queue_id, is_bill) in enumerate(drawn):
        topic = "bills" if is_bill else "orders"
        keys = b"key-%04d all" % number
        run.append(record(number * 3 + 1, queue_id, offsets[topic, queue_id], 0, topic, keys, b"tag-%d" % queue_id))
        offsets[topic, queue_id] += 1
    one, columns = DispatchedLog(), DispatchedLog()
    for each in run[:known]:
        columns.dispatcher.dispatch(each)

    for each in run:
        one.dispatcher.dispatch(each)
    columns.dispatcher.dispatch_columns(Columns.of(run[:known] or run))
    columns.dispatcher.dispatch_columns(Columns.of(run[known:] or run))

    for dispatched in (one, columns):
        dispatched.queues.flush()
        dispatched.index.close()
    assert contents(columns) == contents(one)


def contents(dispatched: DispatchedLog) -> dict[tuple[str, int] | str, object]:
    queues: dict[tuple[str, int] | str, object] = {
        key: (queue.min_offset, list(queue.entries(queue.min_offset, 1000)), queue.max_physical_offset)
        for key, queue in dispatched.queues.items()
    }
    directory = Path("/store/index")
    return queues | {name: dispatched.disk.content(directory / name) for name in dispatched.disk.names(directory)}


def test_a_damaged_range_is_skipped() -> None:
    dispatched = DispatchedLog()
    for number in range(4):
        dispatched.log.append([draft(b"%d" % number)], [number], NOW)
    dispatched.dispatcher.load(0, [Damage(98, 294, "test")])

    dispatched.dispatch()

    queue = dispatched.queues.find("orders", 0)
    assert [entry.is_filler for entry in queue.entries(0, 10)] == [False, True, True, False]


def test_a_record_whose_topic_cannot_be_a_directory_is_skipped() -> None:
    dispatched = DispatchedLog()
    dispatched.append(draft(topic="../../etc"), draft(b"good"))

    dispatched.dispatch()

    assert [key for key, _ in dispatched.queues.items()] == [("orders", 0)]
    assert dispatched.dispatcher.offset == dispatched.log.end_offset


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_appends_are_dispatched_as_if_they_were_read_from_the_log(at_once: int) -> None:
    """Append with and without key columns, a batch, a delayed message, and end of files in between."""
    levels = {1: 1000, 2: 5000}
    encoder = MessageEncoder({DELAY_MARK: diversion(levels)})

    def sent() -> list[Append]:
        properties_of_each = [to_bytes({"KEYS": f"a k{number}", "TAGS": "t", "UNIQ_KEY": "u"}) for number in range(10)]
        plain = [encoder.encode(Message("orders", b"x", properties)) for properties in properties_of_each]
        kinds = (sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK)
        in_transactions = [encoder.encode(Message("orders", b"x", sys_flag=kind)) for kind in kinds]
        delayed = encoder.encode(Message("later", b"x", to_bytes({"DELAY": "2", "TAGS": "t"})))
        uniform = [
            encoder.encode_batch(
                Message("orders", b"", queue_id=1),
                encode_parts(Part(b"x", to_bytes({"UNIQ_KEY": f"v{number}", **more})) for number in range(2)),
            )
            for more in ({}, {"TAGS": "t"}, {})
        ]
        assert all(isinstance(each.starts, range) for each in uniform)
        return [*plain, batch([b"1", b"2"]), *uniform[:2], *in_transactions, delayed, draft_of_size(900), uniform[2]]

    def append(dispatched: DispatchedLog, many: list[Append], timestamp: int) -> list[Appended]:
        offsets = []
        for one in many:
            queue = one.topic, one.queue_id
            offsets.append(dispatched.next_offsets[queue] if one.is_queued else 0)
            dispatched.next_offsets[queue] += len(one.starts) * one.is_queued
        return dispatched.log.append(many, offsets, timestamp)

    read, direct = DispatchedLog(), DispatchedLog()
    for number in range(4):
        append(read, sent(), NOW + number)
        read.dispatch()
        many = sent()
        for first in range(0, len(many), at_once):
            some = many[first : first + at_once]
            direct.dispatcher.dispatch_appended(some, append(direct, some, NOW + number))

    assert direct.dispatcher.offset == read.dispatcher.offset == direct.log.end_offset
    assert direct.dispatcher.timestamp == read.dispatcher.timestamp
    for key, queue in read.queues.items():
        other = direct.queues.get(*key)
        assert other is not None
        assert list(other.entries(0, 1000)) == list(queue.entries(0, 1000))
    assert len(direct.queues) == len(read.queues)
    for topic, name in (
        ("orders", b"a"),
        ("orders", b"k3"),
        ("orders", b"u"),
        ("orders", b"v1"),
        ("SCHEDULE_TOPIC_XXXX", b"T#t"),
    ):
        assert direct.index.query(topic, name, 1000) == read.index.query(topic, name, 1000)
