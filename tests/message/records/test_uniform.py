"""Records of uniform messages, encoded from columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import hosts
from kerolox.message.message import Message
from kerolox.message.records.record import encode, stamp, stamp_all
from kerolox.message.records.uniform import VaryingColumns, to_records

V4, V6 = hosts.parse("10.0.0.1:10911"), hosts.parse("[::1]:10911")
OTHERS = {V4: hosts.parse("10.0.0.2:5"), V6: hosts.parse("[::2]:5")}

rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**62), st.booleans()), min_size=1, max_size=40)


@given(rows, st.integers(1, 50), st.sampled_from([V4, V6]), st.sampled_from([V4, V6]), st.sampled_from([b"", b"\x02a"]))
def test_records_from_columns_equal_those_of_each_message(
    given_: list[tuple[int, int, bool]], body_size: int, born_host: bytes, store_host: bytes, after: bytes
) -> None:
    messages = [
        Message(
            "orders",
            bytes([number]) * body_size,
            b"own\x011\x02UNIQ_KEY\x01%04d%b" % (number, after),
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
    varying = VaryingColumns(
        [message.queue_id for message in messages],
        [message.born_timestamp for message in messages],
        [message.born_host for message in messages],
        [message.body for message in messages],
        [b"%04d" % number for number in range(len(messages))],
    )

    records, starts = to_records(messages[0], len(after), varying)

    expected = [encode(message) for message in messages]
    assert records == b"".join(expected)
    assert [records[start : start + starts.step] for start in starts] == expected

    queue_offsets = [number * 3 for number in starts]
    stamp_all(records, starts, queue_offsets, 1000, 77)
    for start, queue_offset, record in zip(starts, queue_offsets, expected, strict=True):
        stamp(record, queue_offset, 1000 + start, 77)
    assert records == b"".join(expected)
