"""Records of many messages, encoded from columns."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import hosts
from kerolox.message.message import Message
from kerolox.message.records.message_columns import MessageColumns, encode_columns
from kerolox.message.records.record import decode, encode, stamp, stamp_all

V4, V6 = hosts.parse("10.0.0.1:10911"), hosts.parse("[::1]:10911")
OTHERS = {V4: hosts.parse("10.0.0.2:5"), V6: hosts.parse("[::2]:5")}
SIZE_MAX = 1_000_000

rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**62), st.booleans()), min_size=2, max_size=40)
# One of the messages differs from the others in one field.
changes = st.sampled_from(
    [
        {},
        {"topic": "payments"},
        {"flag": 9},
        {"sys_flag": 0},
        {"reconsume_times": 0},
        {"body": b"another body"},
        {"properties": b"own\x01another\x02"},
        {"born_host": V4},
        {"born_host": V6},
    ]
)


def columns_of(messages: list[Message]) -> MessageColumns:
    return MessageColumns(
        [(message.topic, message.queue_id) for message in messages],
        [message.flag for message in messages],
        [message.sys_flag for message in messages],
        [message.born_timestamp for message in messages],
        [message.born_host for message in messages],
        [message.reconsume_times for message in messages],
        [message.body for message in messages],
        [message.properties for message in messages],
    )


@given(rows, st.integers(1, 50), st.sampled_from([V4, V6]), st.sampled_from([V4, V6]), changes)
def test_records_from_columns_equal_those_of_each_message(
    given_: list[tuple[int, int, bool]],
    body_size: int,
    born_host: bytes,
    store_host: bytes,
    change: dict[str, str | int | bytes],
) -> None:
    messages = [
        Message(
            "orders",
            bytes([number]) * body_size,
            b"own\x011\x02UNIQ_KEY\x01%04d\x02" % number,
            queue_id=queue_id,
            flag=7,
            sys_flag=1,
            born_timestamp=born_timestamp,
            born_host=OTHERS[born_host] if is_other else born_host,
            store_host=store_host,
            reconsume_times=2,
        )
        for number, (queue_id, born_timestamp, is_other) in enumerate(given_)
    ]
    for name, value in change.items():
        setattr(messages[-1], name, value)

    ((records, starts),) = encode_columns(store_host, columns_of(messages), SIZE_MAX)

    expected = [encode(message) for message in messages]
    assert records == b"".join(expected)
    ends = [*starts[1:], len(records)]
    assert [records[start:end] for start, end in zip(starts, ends, strict=True)] == expected

    queue_offsets = [number * 3 for number in starts]
    stamp_all(records, starts, queue_offsets, 1000, 77)
    for start, queue_offset, record in zip(starts, queue_offsets, expected, strict=True):
        stamp(record, queue_offset, 1000 + start, 77)
    assert records == b"".join(expected)


@pytest.mark.parametrize("store_host", [V4, V6])
@pytest.mark.parametrize("born_host", [V4, V6])
def test_records_have_hosts_of_either_family(store_host: bytes, born_host: bytes) -> None:
    sent = Message("orders", b"body", b"k\x01v\x02", 1, 2, 0, 3, born_host)

    ((records, starts),) = encode_columns(store_host, columns_of([sent]), SIZE_MAX)

    message = decode(bytes(records))
    assert list(starts) == [0]
    assert (message.store_host, message.born_host, message.body) == (store_host, born_host, b"body")


@pytest.mark.parametrize("is_even", [False, True])
def test_a_run_of_records_has_at_most_the_given_size(is_even: bool) -> None:
    messages = [Message("orders", b"body", b"k\x01v\x02", 1, flag, 0, 3, V4) for flag in (2, 2, 2 if is_even else 3)]
    columns = columns_of(messages)
    size = len(encode(messages[0]))

    def starts_of(size_max: int) -> list[list[int]]:
        return [list(starts) for _, starts in encode_columns(V4, columns, size_max)]

    assert starts_of(3 * size) == [[0, size, 2 * size]]
    assert starts_of(3 * size - 1) == starts_of(2 * size) == [[0, size], [0]]
    assert starts_of(2 * size - 1) == starts_of(1) == [[0]] * 3
    assert b"".join(records for records, _ in encode_columns(V4, columns, 2 * size)) == b"".join(
        encode(msgspec.structs.replace(message, store_host=V4)) for message in messages
    )
