"""From a message to a draft: sizes, diversions, batches; the bytes are those of Java's brokers."""

import pytest

from kerolox.message import hosts, sysflag
from kerolox.message.batch import Part
from kerolox.message.batch import encode as encode_parts
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import mark, parse, remove, to_bytes
from kerolox.message.record import BODY_SIZE_MAX, GROUP_TOPIC_SIZE_MAX, PROPERTIES_SIZE_MAX, decode, decode_all, stamp
from kerolox.message.tags import tags_code
from kerolox.store.configuration import StoreConfig
from kerolox.store.delay.delays import DELAY_MARK, HALF_TOPIC, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.drafts import Drafts
from kerolox.store.log.commit_log import Parts
from tests.golden import records as golden

LEVELS = parse_levels(StoreConfig().message_delay_level)
DRAFTS = Drafts({DELAY_MARK: diversion(LEVELS)})
HOST = hosts.parse("10.0.0.1:10911")


def message(body: bytes = b"body", *, topic: str = "orders", sys_flag: int = 0, **properties: str) -> Message:
    return Message(topic, body, to_bytes(properties), 3, 7, sys_flag, 11, HOST, 0, HOST, 2)


def recorded(version: str, case: str) -> list[Message]:
    found = [decode(kept.record) for kept in golden.load(version) if kept.case.endswith(f"/{case}")]
    assert found
    return found


def test_a_plain_message_is_stored_as_it_is() -> None:
    sent = message(TAGS="red", NODELAY="2", WAIT="true")

    draft = DRAFTS.one(sent)

    assert (draft.topic, draft.queue_id, draft.starts, draft.is_queued) == ("orders", 3, (0,), True)
    assert decode(draft.records) == sent


@pytest.mark.parametrize(
    ("sys_flag", "is_queued"),
    [(sysflag.NOT_TRANSACTION, True), (sysflag.COMMIT, True), (sysflag.PREPARED, False), (sysflag.ROLLBACK, False)],
)
def test_only_some_types_are_in_queues_and_can_be_delayed(sys_flag: int, is_queued: bool) -> None:
    draft = DRAFTS.one(message(sys_flag=sys_flag, DELAY="2"))

    assert draft.is_queued is is_queued
    assert draft.topic == (SCHEDULE_TOPIC if is_queued else "orders")
    assert decode(draft.records).sys_flag == sys_flag


def test_a_delayed_message_waits_in_the_queue_of_its_level() -> None:
    sent = message(TAGS="red", DELAY="3")

    draft = DRAFTS.one(sent)

    stored = decode(draft.records)
    assert (draft.topic, draft.queue_id) == (stored.topic, stored.queue_id) == (SCHEDULE_TOPIC, 2)
    assert stored.properties == b"TAGS\x01red\x02DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
    assert (stored.body, stored.flag, stored.born_timestamp, stored.reconsume_times) == (b"body", 7, 11, 2)
    assert (sent.topic, sent.queue_id) == ("orders", 3)


def test_properties_without_their_last_separator_get_it() -> None:
    draft = DRAFTS.one(Message("orders", b"", b"DELAY\x011"))

    assert decode(draft.records).properties == b"DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"


def test_a_level_that_is_too_high_becomes_the_highest_where_it_stands() -> None:
    draft = DRAFTS.one(message(DELAY="19", TAGS="red"))

    assert draft.queue_id == 17
    assert decode(draft.records).properties.startswith(b"DELAY\x0118\x02TAGS\x01red\x02REAL_TOPIC\x01")


@pytest.mark.parametrize("level", ["0", "-1", "-2147483648", "+0"])
def test_a_level_that_is_not_positive_delays_nothing(level: str) -> None:
    draft = DRAFTS.one(message(DELAY=level))

    assert draft.topic == "orders"
    assert parse(decode(draft.records).properties) == {"DELAY": level}


@pytest.mark.parametrize("level", ["soon", "1.5", " 1", "2147483648", "1" * 5000, "-", "1_0", "\u0661"])
def test_a_level_that_is_no_number_is_refused(level: str) -> None:
    with pytest.raises(MessageIllegal, match="DELAY is"):
        DRAFTS.one(message(DELAY=level))


def test_without_levels_nothing_is_delayed() -> None:
    assert Drafts({DELAY_MARK: diversion({})}).one(message(DELAY="1")).topic == "orders"


def test_where_a_message_waited_before_is_forgotten() -> None:
    """A message that is retried has it all in its properties."""
    draft = DRAFTS.one(message(topic="%RETRY%g", REAL_QID="9", DELAY="1", REAL_TOPIC="old", TIMER_DELAY_MS="5", a="b"))

    stored = decode(draft.records).properties
    assert stored == b"DELAY\x011\x02a\x01b\x02REAL_TOPIC\x01%RETRY%g\x02REAL_QID\x013\x02"


def test_a_half_message_is_not_delayed_before_it_is_committed() -> None:
    assert DRAFTS.one(message(topic=HALF_TOPIC, DELAY="1")).topic == HALF_TOPIC


def test_the_diversions_follow_one_another() -> None:
    seen = []

    def spy(passing: Message) -> Message:
        seen.append(passing.topic)
        return passing

    drafts = Drafts({b"": spy, DELAY_MARK: diversion(LEVELS), b"DELAY": spy, b"TIMER": spy})
    drafts.one(message(DELAY="1"))
    drafts.one(message(sys_flag=sysflag.PREPARED, DELAY="1"))

    assert seen == ["orders", SCHEDULE_TOPIC]


# Sizes


def test_what_is_too_large_is_refused() -> None:
    assert DRAFTS.one(message(b"x" * BODY_SIZE_MAX)).topic == "orders"
    with pytest.raises(MessageIllegal, match="body of 4194305 bytes"):
        DRAFTS.one(message(b"x" * (BODY_SIZE_MAX + 1)))
    with pytest.raises(MessageIllegal, match="body of 11 bytes, at most 10"):
        Drafts(body_size_max=10).one(message(b"x" * 11))
    with pytest.raises(MessageIllegal, match="properties of"):
        DRAFTS.one(message(a="x" * PROPERTIES_SIZE_MAX))
    with pytest.raises(MessageIllegal, match="topic of 128 bytes"):
        DRAFTS.one(message(topic="x" * 128))


def test_what_is_too_large_is_refused_before_it_waits() -> None:
    with pytest.raises(MessageIllegal, match="topic of 128 bytes"):
        DRAFTS.one(message(topic="x" * 128, DELAY="1"))
    with pytest.raises(MessageIllegal, match="properties of"):
        DRAFTS.one(message(DELAY="1", a="x" * (PROPERTIES_SIZE_MAX - 30)))
    longest = "%RETRY%".ljust(GROUP_TOPIC_SIZE_MAX, "g")
    assert DRAFTS.one(message(topic=longest, DELAY="1")).topic == SCHEDULE_TOPIC


def test_a_batch_in_one_record_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="batches in one record"):
        DRAFTS.one(message(sys_flag=sysflag.INNER_BATCH))
    with pytest.raises(MessageIllegal, match="INNER_NUM"):
        DRAFTS.one(message(INNER_NUM="2"))
    assert DRAFTS.one(message(NOT_INNER_NUM="2")).topic == "orders"


# Batches


def test_a_batch_becomes_a_record_for_each_part() -> None:
    shared = message(b"of the request", WAIT="true", CLUSTER="c")
    parts = [Part(b"one", b"TAGS\x01a\x02", 1), Part(b"", b"DELAY\x015\x02", 2), Part(b"three")]

    draft = DRAFTS.batch(shared, encode_parts(parts))

    stored = decode_all(draft.records)
    assert [(one.body, one.properties, one.flag) for one in stored] == [
        (part.body, part.properties, part.flag) for part in parts
    ]
    assert {(one.topic, one.queue_id, one.born_timestamp, one.reconsume_times) for one in stored} == {
        ("orders", 3, 11, 2)
    }
    assert [decode(draft.records, at) for at in draft.starts] == stored
    assert (draft.topic, draft.queue_id, draft.is_queued) == ("orders", 3, True)
    assert shared.body == b"of the request"


@pytest.mark.parametrize(
    ("shared", "reason"),
    [
        (message(DELAY="1"), "cannot be delayed"),
        (message(DELAY="x"), "cannot be delayed"),
        (message(sys_flag=sysflag.PREPARED), "transaction"),
        (message(sys_flag=sysflag.COMMIT), "transaction"),
        (message(sys_flag=sysflag.INNER_BATCH), "one record"),
        (message(INNER_NUM="1"), "INNER_NUM"),
        (message(topic="x" * 128), "topic of 128"),
    ],
)
def test_what_a_batch_cannot_be_is_refused(shared: Message, reason: str) -> None:
    with pytest.raises(MessageIllegal, match=reason):
        DRAFTS.batch(shared, encode_parts([Part(b"one")]))


def test_a_batch_may_say_that_it_is_not_delayed() -> None:
    assert len(DRAFTS.batch(message(DELAY="0"), encode_parts([Part(b"one")])).starts) == 1


def test_a_batch_has_at_least_one_message_and_is_not_larger_than_one() -> None:
    with pytest.raises(MessageIllegal, match="without messages"):
        DRAFTS.batch(message(), b"")
    drafts = Drafts(body_size_max=64)
    assert len(drafts.batch(message(), encode_parts([Part(b"x" * 10), Part(b"x" * 10)])).starts) == 2
    with pytest.raises(MessageIllegal, match="batch of 65 bytes, at most 64"):
        drafts.batch(message(), encode_parts([Part(b"x" * 10), Part(b"x" * 11)]))


# Java


def test_a_delayed_message_waits_in_the_bytes_of_5_5() -> None:
    for case in ("ipv4/delay", "ipv6/delay", "ipv4/retry"):
        waiting = [
            kept.record for kept in golden.load("5.5.0") if kept.case == case and SCHEDULE_TOPIC.encode() in kept.record
        ]
        assert waiting
        for record in waiting:
            assert waited(as_sent(decode(record)), record) == record


def test_a_delayed_message_waits_with_the_properties_of_4_9() -> None:
    """Whose order is that of a hash table of another size."""
    for stored in recorded("4.9.7", "delay") + recorded("4.9.7", "retry"):
        if stored.topic == SCHEDULE_TOPIC:
            again = decode(DRAFTS.one(as_sent(stored)).records)
            assert again.parsed == stored.parsed
            assert (again.topic, again.queue_id) == (stored.topic, stored.queue_id)


def test_a_batch_has_a_bound_of_messages_and_of_keys() -> None:
    drafts = Drafts(parts_max=3, keys_max=6)

    def drafted(*keys: str) -> int:
        parts = [Part(b" " * 100, to_bytes({"UNIQ_KEY": "u", "KEYS": each} if each else {})) for each in keys]
        return len(drafts.batch(message(), encode_parts(parts)).starts)

    assert drafted("a b", "c  d ", "e f") == 3
    with pytest.raises(MessageIllegal, match="batch of more than 3 messages, which is the most there may be"):
        drafted("", "", "", "")
    with pytest.raises(MessageIllegal, match="batch with 7 keys, at most 6 allowed"):
        drafted("a b", "c d e", "f g")


def test_a_batch_becomes_the_records_of_5_5() -> None:
    for broker in ("ipv4", "ipv6"):
        kept = [kept.record for kept in golden.load("5.5.0") if kept.case.startswith(f"{broker}/batch-")]
        stored = [decode(record) for record in kept]
        shared = stored[0]

        draft = DRAFTS.batch(shared, encode_parts(Part(one.body, one.properties, one.flag) for one in stored))

        for at, one in zip(draft.starts, stored, strict=True):
            stamp(draft.records, one.queue_offset, one.physical_offset, one.store_timestamp, at)
        assert draft.records == b"".join(kept)


def as_sent(stored: Message) -> Message:
    """What the broker had before it diverted the message."""
    properties = stored.properties
    for name in ("REAL_TOPIC", "REAL_QID"):
        properties = remove(properties, mark(name))
    return Message(
        stored.parsed["REAL_TOPIC"],
        stored.body,
        properties,
        int(stored.parsed["REAL_QID"]),
        stored.flag,
        stored.sys_flag,
        stored.born_timestamp,
        stored.born_host,
        0,
        stored.store_host,
        stored.reconsume_times,
    )


def waited(sent: Message, record: bytes) -> bytes:
    stored = decode(record)
    draft = DRAFTS.one(sent)
    stamp(draft.records, stored.queue_offset, stored.physical_offset, stored.store_timestamp)
    return bytes(draft.records)


def test_properties_that_fit_into_no_record_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be as long as a frame, and of nothing but separators."""
    monkeypatch.setattr("kerolox.store.drafts.outline", lambda data: pytest.fail("taken apart"))

    with pytest.raises(MessageIllegal, match="properties of 100000 bytes"):
        DRAFTS.one(Message("orders", b"", b"\x02" * 100_000))


@pytest.mark.parametrize("properties", [{}, {"TAGS": "red"}, {"KEYS": "a b", "TAGS": "red"}, {"own": "x", "KEYS": "c"}])
@pytest.mark.parametrize("host", [HOST, hosts.parse("[2001:db8::1]:10911")])
def test_plain_messages_made_together_are_what_they_are_one_by_one(properties: dict[str, str], host: bytes) -> None:
    sent = [message(b"%d" % number, UNIQ_KEY=f"u{number}", **properties) for number in range(3)]
    for one in sent:
        one.born_host = host
        one.sys_flag = sysflag.BORN_HOST_V6 if host != HOST else 0
    rows = [
        (m.queue_id, m.flag, m.sys_flag, m.born_timestamp, m.born_host, m.reconsume_times, m.body, m.properties)
        for m in sent
    ]
    found = [read for m in sent if (read := DRAFTS.properties.read(m.properties)) is not None]

    (together,) = DRAFTS.plain("orders", HOST, rows, found, 1_000_000)
    alone = DRAFTS.plain("orders", HOST, rows, found, 1)
    ones = [DRAFTS.one(one) for one in sent]

    assert together.records == b"".join([one.records for one in ones])
    assert together.queue_ids == [one.queue_id for one in sent]
    assert alone == ones
    assert together.parts is not None
    assert together.parts.tags_codes == [one.tags_code for one in ones]
    found_by = [
        [key for key, at in zip(together.parts.keys, together.parts.key_starts, strict=True) if at == start]
        for start in together.starts
    ]
    assert found_by == [one.keys for one in ones]


def test_a_batch_says_of_each_part_what_it_is_found_by() -> None:
    parts = [
        Part(b"a", to_bytes({"UNIQ_KEY": "u1", "TAGS": "red"})),
        Part(b"b", to_bytes({"UNIQ_KEY": "u2", "KEYS": "k"})),
    ]

    draft = DRAFTS.batch(message(), encode_parts(parts))

    first, second = draft.starts
    keys, key_starts = [b"u1", b"T#red", b"u2", b"k"], [first, first, second, second]
    assert draft.parts == Parts(keys, key_starts, [tags_code(b"red"), 0])
    assert DRAFTS.batch(message(), encode_parts([*parts, Part(b"c")])).parts is None


@pytest.mark.parametrize("more", [{}, {"TAGS": "red"}, {"KEYS": "a b"}, {"TAGS": "red", "KEYS": "a"}, {"DELAY": "1"}])
def test_a_batch_of_messages_that_are_alike_is_drafted_like_any(
    more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(b"body%d" % number, to_bytes({"UNIQ_KEY": f"u{number}", **more})) for number in range(10)]
    drafted = Drafts({DELAY_MARK: diversion(LEVELS)}).batch(message(b""), encode_parts(parts))
    monkeypatch.setattr("kerolox.message.even.outline", lambda data: None)

    expected = DRAFTS.batch(message(b""), encode_parts(parts))

    assert (drafted.records, list(drafted.starts)) == (expected.records, list(expected.starts))
    assert (drafted.parts is None) == (expected.parts is None)
    if drafted.parts is not None and expected.parts is not None:
        assert (drafted.parts.keys, list(drafted.parts.key_starts)) == (expected.parts.keys, expected.parts.key_starts)
        assert drafted.parts.tags_codes == expected.parts.tags_codes
