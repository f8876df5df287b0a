"""What the dispatcher makes of records."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import sysflag
from kerolox.message.batch import Part
from kerolox.message.batch import encode as encode_parts
from kerolox.message.columns import Columns
from kerolox.message.message import Message
from kerolox.message.peek import Peek
from kerolox.message.properties import to_bytes
from kerolox.message.tags import key_hash, tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.store.arrivals import Arrivals
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, diversion
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.drafts import Drafts
from kerolox.store.keys.index_layout import ENTRY, IndexShape
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.commit_log import Appended, CommitLog, Draft
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import OpenFiles
from kerolox.store.queue.queues import Queues
from tests.store.disks import SimulatedDisk
from tests.store.stores import batch, draft, draft_of_size, segments

NOW = 1_700_000_000_000


class Made:
    """A log with a dispatcher that follows it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.log = CommitLog(segments(self.disk))
        self.queues = Queues(OpenFiles(self.disk, 10), Path("/store/consumequeue"), 160)
        self.index = KeyIndex(self.disk, Path("/store/index"), ManualClock(), shape=IndexShape(16, 64))
        self.next_offsets: Counter[tuple[str, int]] = Counter()
        levels = {1: 1000, 2: 5000}
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, Arrivals(), levels)

    def append(self, *drafts: Draft) -> None:
        self.log.append(drafts, [0] * len(drafts), NOW)

    def follow(self) -> None:
        self.dispatcher.follow(self.log.end_offset)

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
def test_only_messages_without_or_after_a_transaction_are_in_queues(
    kind: int, is_queued: bool, is_indexed: bool
) -> None:
    made = Made()
    made.append(draft(sys_flag=kind, KEYS="k"))

    made.follow()

    assert made.count() == is_queued
    assert made.index.query("orders", b"k", 10) == [0] * is_indexed
    assert made.dispatcher.offset == made.log.end_offset


def test_the_index_has_unique_key_then_keys_then_tag_as_5_5_writes_them() -> None:
    made = Made()
    made.append(draft(TAGS="red", KEYS="a  b", UNIQ_KEY="u"), draft(TAGS="red"), draft(topic="other"))

    made.follow()
    made.index.flush().run()

    (path,) = made.index.paths
    content = made.disk.read(path) or b""
    at = IndexShape(16, 64).entries_position
    hashes = [ENTRY.unpack_from(content, at + number * ENTRY.size)[0] for number in range(1, 7)]
    assert hashes == [*(key_hash("orders", key) for key in (b"u", b"a", b"b", b"T#red", b"T#red")), 0]


def test_an_entry_has_the_code_of_the_tag() -> None:
    made = Made()
    made.append(draft(TAGS="red"))

    made.follow()

    entry = made.queues.find("orders", 0).entry(0)
    assert entry is not None
    assert entry == (0, made.log.end_offset, tags_code(b"red"))


@pytest.mark.parametrize(("level", "delay"), [("1", 1000), ("2", 5000), ("9", 5000), ("+2", 5000)])
def test_an_entry_of_the_delay_topic_says_when_it_is_due(level: str, delay: int) -> None:
    made = Made()
    made.append(draft(topic=SCHEDULE_TOPIC, DELAY=level, TAGS="red"))

    made.follow()

    entry = made.queues.find(SCHEDULE_TOPIC, 0).entry(0)
    assert entry is not None
    assert entry.tags_code == NOW + delay


def test_all_keys_and_the_unique_key_are_in_the_index() -> None:
    made = Made()
    made.append(draft(KEYS="a b  c", UNIQ_KEY="u" * 32))

    made.follow()

    assert [made.index.query("orders", key, 10) for key in (b"a", b"b", b"c", b"u" * 32, b"", b"a b")] == [
        [0],
        [0],
        [0],
        [0],
        [],
        [],
    ]


def test_records_are_followed_over_blanks_and_in_pieces() -> None:
    made = Made()
    for number in range(30):
        made.log.append([draft_of_size(700 + number)], [number], NOW)
        if number % 4 == 0:
            made.follow()

    made.follow()

    assert made.count("t") == 30


def test_dispatching_again_changes_nothing() -> None:
    made = Made()
    made.log.append([batch([b"a", b"b", b"c"], KEYS="k")], [0], NOW)
    made.follow()

    made.dispatcher.load(0)
    made.follow()

    assert made.count() == 3
    assert len(made.index.query("orders", b"k", 10)) == 3


def record(number: int, queue_id: int, queue_offset: int, kind: int, topic: str, keys: bytes, tag: bytes) -> Peek:
    unique_key = b"%032d" % number if number % 3 else b""
    offset, timestamp = number * 200, NOW + number * 700
    properties = b"DELAY\x011\x02"
    return Peek(200, topic, queue_id, queue_offset, offset, kind, timestamp, properties, number, keys, unique_key, tag)


records = st.lists(
    st.tuples(
        st.integers(0, 2),
        # Some are missing, and some were there before.
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
def test_a_run_is_dispatched_as_its_records_are_one_by_one(
    drawn: list[tuple[int, int, int, str, bytes, bytes]], known: int, at_once: int
) -> None:
    offsets: dict[tuple[str, int], int] = {}
    run = []
    for number, (queue_id, jump, kind, topic, keys, tag) in enumerate(drawn):
        queue_offset = max(0, offsets.get((topic, queue_id), 0) + jump)
        if sysflag.is_queued(kind):
            offsets[topic, queue_id] = queue_offset + 1
        run.append(record(number, queue_id, queue_offset, kind, topic, keys, tag))
    one, many = Made(), Made()
    for each in run[:known]:
        many.dispatcher.dispatch(each)

    for each in run:
        one.dispatcher.dispatch(each)
    for first in range(0, len(run), at_once):
        many.dispatcher.dispatch_columns(Columns.of(run[first : first + at_once]))

    for made in (one, many):
        made.queues.flush()
        made.index.close()
    assert contents(many) == contents(one)
    assert (many.dispatcher.offset, many.dispatcher.timestamp) == (one.dispatcher.offset, one.dispatcher.timestamp)
    assert many.queues.backlog.entries == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=60), st.integers(0, 60))
def test_columns_of_records_that_are_alike_are_dispatched_as_these_are_one_by_one(
    drawn: list[tuple[int, bool]], known: int
) -> None:
    offsets: Counter[tuple[str, int]] = Counter()
    run = []
    for number, (queue_id, is_bill) in enumerate(drawn):
        topic = "bills" if is_bill else "orders"
        keys = b"key-%04d all" % number
        run.append(record(number * 3 + 1, queue_id, offsets[topic, queue_id], 0, topic, keys, b"tag-%d" % queue_id))
        offsets[topic, queue_id] += 1
    one, columns = Made(), Made()
    for each in run[:known]:
        columns.dispatcher.dispatch(each)

    for each in run:
        one.dispatcher.dispatch(each)
    columns.dispatcher.dispatch_columns(Columns.of(run[:known] or run))
    columns.dispatcher.dispatch_columns(Columns.of(run[known:] or run))

    for made in (one, columns):
        made.queues.flush()
        made.index.close()
    assert contents(columns) == contents(one)


def contents(made: Made) -> dict[tuple[str, int] | str, object]:
    queues: dict[tuple[str, int] | str, object] = {
        place: (queue.min_offset, list(queue.entries(queue.min_offset, 1000)), queue.max_physical_offset)
        for place, queue in made.queues.items()
    }
    directory = Path("/store/index")
    return queues | {name: made.disk.content(directory / name) for name in made.disk.names(directory)}


def test_a_damaged_range_is_stepped_over() -> None:
    made = Made()
    for number in range(4):
        made.log.append([draft(b"%d" % number)], [number], NOW)
    made.dispatcher.damages = {98: Damage(98, 294, "test")}

    made.follow()

    queue = made.queues.find("orders", 0)
    assert [entry.is_filler for entry in queue.entries(0, 10)] == [False, True, True, False]


def test_a_record_whose_topic_cannot_be_a_directory_is_stepped_over() -> None:
    made = Made()
    made.append(draft(topic="../../etc"), draft(b"good"))

    made.follow()

    assert [key for key, _ in made.queues.items()] == [("orders", 0)]
    assert made.dispatcher.offset == made.log.end_offset


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_what_was_just_appended_is_dispatched_as_if_it_were_read(at_once: int) -> None:
    """Drafts with and without what they are found by, a batch, a delayed one, and ends of files in between."""
    levels = {1: 1000, 2: 5000}
    drafts = Drafts({DELAY_MARK: diversion(levels)})

    def sent() -> list[Draft]:
        found_by = [to_bytes({"KEYS": f"a k{number}", "TAGS": "t", "UNIQ_KEY": "u"}) for number in range(10)]
        plain = [drafts.one(Message("orders", b"x", properties)) for properties in found_by]
        kinds = (sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK)
        in_transactions = [drafts.one(Message("orders", b"x", sys_flag=kind)) for kind in kinds]
        delayed = drafts.one(Message("later", b"x", to_bytes({"DELAY": "2", "TAGS": "t"})))
        alike = [
            drafts.batch(
                Message("orders", b"", queue_id=1),
                encode_parts(Part(b"x", to_bytes({"UNIQ_KEY": f"v{number}", **more})) for number in range(2)),
            )
            for more in ({}, {"TAGS": "t"}, {})
        ]
        assert all(isinstance(each.starts, range) for each in alike)
        return [*plain, batch([b"1", b"2"]), *alike[:2], *in_transactions, delayed, draft_of_size(900), alike[2]]

    def append(made: Made, many: list[Draft], timestamp: int) -> list[Appended]:
        offsets = []
        for one in many:
            queue = one.topic, one.queue_id
            offsets.append(made.next_offsets[queue] if one.is_queued else 0)
            made.next_offsets[queue] += len(one.starts) * one.is_queued
        return made.log.append(many, offsets, timestamp)

    read, told = Made(), Made()
    for number in range(4):
        append(read, sent(), NOW + number)
        read.follow()
        many = sent()
        for first in range(0, len(many), at_once):
            some = many[first : first + at_once]
            told.dispatcher.dispatch_appended(some, append(told, some, NOW + number))

    assert told.dispatcher.offset == read.dispatcher.offset == told.log.end_offset
    assert told.dispatcher.timestamp == read.dispatcher.timestamp
    for key, queue in read.queues.items():
        other = told.queues.get(*key)
        assert other is not None
        assert list(other.entries(0, 1000)) == list(queue.entries(0, 1000))
    assert len(told.queues) == len(read.queues)
    for topic, name in (
        ("orders", b"a"),
        ("orders", b"k3"),
        ("orders", b"u"),
        ("orders", b"v1"),
        ("SCHEDULE_TOPIC_XXXX", b"T#t"),
    ):
        assert told.index.query(topic, name, 1000) == read.index.query(topic, name, 1000)
