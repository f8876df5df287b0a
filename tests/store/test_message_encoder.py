"""Encoding messages: sizes, diversions, batches; the bytes are those of Java's brokers."""

import pytest

from kerolox.message import hosts, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import mark, parse, remove, to_bytes
from kerolox.message.records.batch import Part
from kerolox.message.records.batch import encode as encode_parts
from kerolox.message.records.record import (
    BODY_SIZE_MAX,
    GROUP_TOPIC_SIZE_MAX,
    PROPERTIES_SIZE_MAX,
    decode,
    decode_all,
    stamp,
)
from kerolox.message.tags import tags_code
from kerolox.store.config import StoreConfig
from kerolox.store.delay.delay_levels import DELAY_MARK, HALF_TOPIC, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.log.commit_log import KeyColumns
from kerolox.store.message_encoder import MessageEncoder
from tests.golden import records as golden
from tests.message.records.test_message_columns import columns_of

LEVELS = parse_levels(StoreConfig().message_delay_level)
ENCODER = MessageEncoder({DELAY_MARK: diversion(LEVELS)})
HOST = hosts.parse("10.0.0.1:10911")


def message(body: bytes = b"body", *, topic: str = "orders", sys_flag: int = 0, **properties: str) -> Message:
    return Message(topic, body, to_bytes(properties), 3, 7, sys_flag, 11, HOST, 0, HOST, 2)


def recorded(version: str, case: str) -> list[Message]:
    found = [decode(kept.record) for kept in golden.load(version) if kept.case.endswith(f"/{case}")]
    assert found
    return found


def test_a_plain_message_is_stored_unchanged() -> None:
    sent = message(TAGS="red", NODELAY="2", WAIT="true")

    append = ENCODER.encode(sent)

    assert (append.topic, append.queue_id, append.starts, append.is_queued) == ("orders", 3, (0,), True)
    assert decode(append.records) == sent


@pytest.mark.parametrize(
    ("sys_flag", "is_queued"),
    [(sysflag.NOT_TRANSACTION, True), (sysflag.COMMIT, True), (sysflag.PREPARED, False), (sysflag.ROLLBACK, False)],
)
def test_only_plain_and_committed_messages_are_queued_and_can_be_delayed(sys_flag: int, is_queued: bool) -> None:
    append = ENCODER.encode(message(sys_flag=sys_flag, DELAY="2"))

    assert append.is_queued is is_queued
    assert append.topic == (SCHEDULE_TOPIC if is_queued else "orders")
    assert decode(append.records).sys_flag == sys_flag


def test_a_delayed_message_goes_to_the_queue_of_its_level() -> None:
    sent = message(TAGS="red", DELAY="3")

    append = ENCODER.encode(sent)

    stored = decode(append.records)
    assert (append.topic, append.queue_id) == (stored.topic, stored.queue_id) == (SCHEDULE_TOPIC, 2)
    assert stored.properties == b"TAGS\x01red\x02DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
    assert (stored.body, stored.flag, stored.born_timestamp, stored.reconsume_times) == (b"body", 7, 11, 2)
    assert (sent.topic, sent.queue_id) == ("orders", 3)


def test_a_missing_last_separator_of_properties_is_added() -> None:
    append = ENCODER.encode(Message("orders", b"", b"DELAY\x011"))

    assert decode(append.records).properties == b"DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"


def test_a_level_that_is_too_high_becomes_the_highest_in_place() -> None:
    append = ENCODER.encode(message(DELAY="19", TAGS="red"))

    assert append.queue_id == 17
    assert decode(append.records).properties.startswith(b"DELAY\x0118\x02TAGS\x01red\x02REAL_TOPIC\x01")


@pytest.mark.parametrize("level", ["0", "-1", "-2147483648", "+0"])
def test_a_level_that_is_not_positive_delays_nothing(level: str) -> None:
    append = ENCODER.encode(message(DELAY=level))

    assert append.topic == "orders"
    assert parse(decode(append.records).properties) == {"DELAY": level}


@pytest.mark.parametrize("level", ["soon", "1.5", " 1", "2147483648", "1" * 5000, "-", "1_0", "\u0661"])
def test_a_level_that_is_not_a_number_is_refused(level: str) -> None:
    with pytest.raises(MessageIllegal, match="DELAY is"):
        ENCODER.encode(message(DELAY=level))


def test_without_levels_nothing_is_delayed() -> None:
    assert MessageEncoder({DELAY_MARK: diversion({})}).encode(message(DELAY="1")).topic == "orders"


def test_the_real_topic_of_an_earlier_delay_is_replaced() -> None:
    """A retried message still has the properties of its earlier delay."""
    append = ENCODER.encode(
        message(topic="%RETRY%g", REAL_QID="9", DELAY="1", REAL_TOPIC="old", TIMER_DELAY_MS="5", a="b")
    )

    stored = decode(append.records).properties
    assert stored == b"DELAY\x011\x02a\x01b\x02REAL_TOPIC\x01%RETRY%g\x02REAL_QID\x013\x02"


def test_a_half_message_is_not_delayed_before_it_is_committed() -> None:
    assert ENCODER.encode(message(topic=HALF_TOPIC, DELAY="1")).topic == HALF_TOPIC


def test_diversions_are_applied_in_order() -> None:
    seen = []

    def spy(passing: Message) -> Message:
        seen.append(passing.topic)
        return passing

    encoder = MessageEncoder({b"": spy, DELAY_MARK: diversion(LEVELS), b"DELAY": spy, b"TIMER": spy})
    encoder.encode(message(DELAY="1"))
    encoder.encode(message(sys_flag=sysflag.PREPARED, DELAY="1"))

    assert seen == ["orders", SCHEDULE_TOPIC]


# Sizes


def test_a_message_that_is_too_large_is_refused() -> None:
    assert ENCODER.encode(message(b"x" * BODY_SIZE_MAX)).topic == "orders"
    with pytest.raises(MessageIllegal, match="body of 4194305 bytes"):
        ENCODER.encode(message(b"x" * (BODY_SIZE_MAX + 1)))
    with pytest.raises(MessageIllegal, match="body of 11 bytes, at most 10"):
        MessageEncoder(body_size_max=10).encode(message(b"x" * 11))
    with pytest.raises(MessageIllegal, match="properties of"):
        ENCODER.encode(message(a="x" * PROPERTIES_SIZE_MAX))
    with pytest.raises(MessageIllegal, match="topic of 128 bytes"):
        ENCODER.encode(message(topic="x" * 128))


def test_a_delayed_message_that_is_too_large_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="topic of 128 bytes"):
        ENCODER.encode(message(topic="x" * 128, DELAY="1"))
    with pytest.raises(MessageIllegal, match="properties of"):
        ENCODER.encode(message(DELAY="1", a="x" * (PROPERTIES_SIZE_MAX - 30)))
    longest = "%RETRY%".ljust(GROUP_TOPIC_SIZE_MAX, "g")
    assert ENCODER.encode(message(topic=longest, DELAY="1")).topic == SCHEDULE_TOPIC


def test_an_inner_batch_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="does not accept inner batches"):
        ENCODER.encode(message(sys_flag=sysflag.INNER_BATCH))
    with pytest.raises(MessageIllegal, match="INNER_NUM"):
        ENCODER.encode(message(INNER_NUM="2"))
    assert ENCODER.encode(message(NOT_INNER_NUM="2")).topic == "orders"


# Batches


def test_a_batch_becomes_a_record_for_each_part() -> None:
    shared = message(b"of the request", WAIT="true", CLUSTER="c")
    parts = [Part(b"one", b"TAGS\x01a\x02", 1), Part(b"", b"DELAY\x015\x02", 2), Part(b"three")]

    append = ENCODER.encode_batch(shared, encode_parts(parts))

    stored = decode_all(append.records)
    assert [(one.body, one.properties, one.flag) for one in stored] == [
        (part.body, part.properties, part.flag) for part in parts
    ]
    assert {(one.topic, one.queue_id, one.born_timestamp, one.reconsume_times) for one in stored} == {
        ("orders", 3, 11, 2)
    }
    assert [decode(append.records, at) for at in append.starts] == stored
    assert (append.topic, append.queue_id, append.is_queued) == ("orders", 3, True)
    assert shared.body == b"of the request"


@pytest.mark.parametrize(
    ("shared", "reason"),
    [
        (message(DELAY="1"), "cannot be delayed"),
        (message(DELAY="x"), "cannot be delayed"),
        (message(sys_flag=sysflag.PREPARED), "transaction"),
        (message(sys_flag=sysflag.COMMIT), "transaction"),
        (message(sys_flag=sysflag.INNER_BATCH), "inner batch"),
        (message(INNER_NUM="1"), "INNER_NUM"),
        (message(topic="x" * 128), "topic of 128"),
    ],
)
def test_an_invalid_batch_is_refused(shared: Message, reason: str) -> None:
    with pytest.raises(MessageIllegal, match=reason):
        ENCODER.encode_batch(shared, encode_parts([Part(b"one")]))


def test_a_batch_may_have_delay_level_zero() -> None:
    assert len(ENCODER.encode_batch(message(DELAY="0"), encode_parts([Part(b"one")])).starts) == 1


def test_an_empty_or_too_large_batch_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="has no messages"):
        ENCODER.encode_batch(message(), b"")
    encoder = MessageEncoder(body_size_max=64)
    assert len(encoder.encode_batch(message(), encode_parts([Part(b"x" * 10), Part(b"x" * 10)])).starts) == 2
    with pytest.raises(MessageIllegal, match="batch of 65 bytes, at most 64"):
        encoder.encode_batch(message(), encode_parts([Part(b"x" * 10), Part(b"x" * 11)]))


# Java


def test_a_delayed_message_has_the_bytes_of_java_5_5() -> None:
    for case in ("ipv4/delay", "ipv6/delay", "ipv4/retry"):
        waiting = [
            kept.record for kept in golden.load("5.5.0") if kept.case == case and SCHEDULE_TOPIC.encode() in kept.record
        ]
        assert waiting
        for record in waiting:
            assert diverted_record(as_sent(decode(record)), record) == record


def test_a_delayed_message_has_the_properties_of_java_4_9() -> None:
    """Their order differs, since 4.9 iterates a hash table of another size."""
    for stored in recorded("4.9.7", "delay") + recorded("4.9.7", "retry"):
        if stored.topic == SCHEDULE_TOPIC:
            again = decode(ENCODER.encode(as_sent(stored)).records)
            assert again.parsed == stored.parsed
            assert (again.topic, again.queue_id) == (stored.topic, stored.queue_id)


def test_the_messages_and_keys_of_a_batch_are_limited() -> None:
    encoder = MessageEncoder(parts_max=3, keys_max=6)

    def encoded(*keys: str) -> int:
        parts = [Part(b" " * 100, to_bytes({"UNIQ_KEY": "u", "KEYS": each} if each else {})) for each in keys]
        return len(encoder.encode_batch(message(), encode_parts(parts)).starts)

    assert encoded("a b", "c  d ", "e f") == 3
    with pytest.raises(MessageIllegal, match="batch of more than 3 messages"):
        encoded("", "", "", "")
    with pytest.raises(MessageIllegal, match="batch with 7 keys, at most 6 allowed"):
        encoded("a b", "c d e", "f g")


def test_a_batch_has_the_records_of_java_5_5() -> None:
    for broker in ("ipv4", "ipv6"):
        kept = [kept.record for kept in golden.load("5.5.0") if kept.case.startswith(f"{broker}/batch-")]
        stored = [decode(record) for record in kept]
        shared = stored[0]

        append = ENCODER.encode_batch(shared, encode_parts(Part(one.body, one.properties, one.flag) for one in stored))

        for at, one in zip(append.starts, stored, strict=True):
            stamp(append.records, one.queue_offset, one.physical_offset, one.store_timestamp, at)
        assert append.records == b"".join(kept)


def as_sent(stored: Message) -> Message:
    """Return the message as it was before the broker diverted it."""
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


def diverted_record(sent: Message, record: bytes) -> bytes:
    stored = decode(record)
    append = ENCODER.encode(sent)
    stamp(append.records, stored.queue_offset, stored.physical_offset, stored.store_timestamp)
    return bytes(append.records)


def test_properties_that_are_too_long_are_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be as long as a frame and consist of separators only."""
    monkeypatch.setattr("kerolox.store.message_encoder.by_initials", lambda data: pytest.fail("parsed"))

    with pytest.raises(MessageIllegal, match="properties of 100000 bytes"):
        ENCODER.encode(Message("orders", b"", b"\x02" * 100_000))


@pytest.mark.parametrize("properties", [{}, {"TAGS": "red"}, {"KEYS": "a b", "TAGS": "red"}, {"own": "x", "KEYS": "c"}])
@pytest.mark.parametrize("host", [HOST, hosts.parse("[2001:db8::1]:10911")])
def test_plain_messages_encoded_together_equal_single_ones(properties: dict[str, str], host: bytes) -> None:
    sent = [message(b"%d" % number, sys_flag=0, UNIQ_KEY=f"u{number}", **properties) for number in range(3)]
    sent[1].topic = "payments"
    for one in sent:
        one.born_host = host
        one.sys_flag = sysflag.BORN_HOST_V6 if host != HOST else 0
    unique_keys, keys, tags = ENCODER.properties.read_all([m.properties for m in sent])
    found = KeyColumns(unique_keys, keys, tags, [tags_code(tag) for tag in tags])

    (together,) = ENCODER.encode_plain(HOST, columns_of(sent), found, 1_000_000)
    alone = ENCODER.encode_plain(HOST, columns_of(sent), found, 1)
    ones = [ENCODER.encode(one) for one in sent]

    assert together.records == b"".join([one.records for one in ones])
    assert together.queues == [(one.topic, one.queue_id) for one in sent]
    assert [one.records for one in alone] == [one.records for one in ones]
    assert [one.queues for one in alone] == [[(one.topic, one.queue_id)] for one in sent]
    assert together.key_columns is not None
    columns = together.key_columns
    assert columns.tags_codes == [one.tags_code for one in ones]
    assert list(zip(columns.unique_keys, columns.keys, columns.tags, strict=True)) == [one.keys for one in ones]


def test_a_batch_has_the_keys_and_tags_of_each_part() -> None:
    parts = [
        Part(b"a", to_bytes({"UNIQ_KEY": "u1", "TAGS": "red"})),
        Part(b"b", to_bytes({"UNIQ_KEY": "u2", "KEYS": "k"})),
    ]

    append = ENCODER.encode_batch(message(), encode_parts(parts))

    assert append.key_columns == KeyColumns((b"u1", b"u2"), (b"", b"k"), (b"red", b""), [tags_code(b"red"), 0])
    delayed = Part(b"c", to_bytes({"UNIQ_KEY": "u3", "DELAY": "1"}))
    assert (
        MessageEncoder({DELAY_MARK: diversion(LEVELS)})
        .encode_batch(message(), encode_parts([*parts, delayed]))
        .key_columns
        is None
    )


def test_a_batch_of_messages_without_properties_is_dispatched_without_reading_the_log() -> None:
    append = ENCODER.encode_batch(
        message(), encode_parts([Part(b"a"), Part(b"bc"), Part(b"d", to_bytes({"KEYS": "k"}))])
    )

    assert append.key_columns == KeyColumns((b"", b"", b""), (b"", b"", b"k"), (b"", b"", b""), [0, 0, 0])


@pytest.mark.parametrize("more", [{}, {"TAGS": "red"}, {"KEYS": "a b"}, {"TAGS": "red", "KEYS": "a"}, {"DELAY": "1"}])
def test_a_batch_of_uniform_messages_is_encoded_like_any_other(
    more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(b"body%d" % number, to_bytes({"UNIQ_KEY": f"u{number}", **more})) for number in range(10)]
    encoded = MessageEncoder({DELAY_MARK: diversion(LEVELS)}).encode_batch(message(b""), encode_parts(parts))
    monkeypatch.setattr("kerolox.message.records.even_batch.detect_layout", lambda data: None)

    expected = ENCODER.encode_batch(message(b""), encode_parts(parts))

    assert (encoded.records, list(encoded.starts)) == (expected.records, list(expected.starts))
    assert (encoded.key_columns is None) == (expected.key_columns is None)
    if encoded.key_columns is not None and expected.key_columns is not None:
        for name in KeyColumns.__struct_fields__:
            assert list(getattr(encoded.key_columns, name)) == list(getattr(expected.key_columns, name)), name
