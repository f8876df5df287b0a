"""Headers of sends that match a learnt template, decoded as columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.remoting.router import Incoming
from kerolox.wire import binary
from kerolox.wire.command import BINARY, JSON, Command, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.header_templates.columns import EqualHeaders, HeaderColumns, compile_columns
from kerolox.wire.headers import messages as h

KEY = "7F00000151F1DABDB9114D35C0FFEE00"
SERIALIZATIONS = [JSON, BINARY]
KINDS = [h.SendMessage, h.SendMessageV2]
FIXED: dict[str, Any] = {
    "producer_group": "producers-of-orders",
    "topic": "orders-of-today",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 3,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "flag": 0,
    "reconsume_times": 0,
    "unit_mode": False,
    "batch": False,
}


def sending(kind: Any = h.SendMessageV2, key: str = KEY, tail: str = "\x02WAIT\x01true\x02", **fields: Any) -> Any:
    return kind(**{**FIXED, "properties": f"UNIQ_KEY\x01{key}{tail}", **fields})


def header_of(serialization: int, request: Any, opaque: int = 1234567, flag: int = 0) -> bytes:
    frame = encode(serialization, code=request.code, opaque=opaque, flag=flag, ext=request.ext(), body=b"")
    return FrameReader().feed(frame)[0][1]


def read(serialization: int, header: bytes) -> tuple[Command, Any]:
    command = decode((serialization, header, b""))
    kind = h.SendMessageV2 if command.code == h.SendMessageV2.code else h.SendMessage
    return command, kind.decode(command.ext)


def learnt(serialization: int, header: bytes) -> HeaderColumns | None:
    """Learn a template from a decoded header, as a broker does."""
    command, request = read(serialization, header)
    incoming = Incoming(code=command.code, opaque=command.opaque, serialization=serialization, header=request)
    return compile_columns(header, incoming)


def read_all(known: HeaderColumns, headers: list[bytes]) -> EqualHeaders | None:
    return known.read([known.serialization] * len(headers), headers)


def same(one: EqualHeaders | None, headers: list[bytes], known: HeaderColumns, serialization: int) -> None:
    """Assert that the columns equal the headers decoded one by one."""
    assert one is not None
    for index, (header, opaque, queue_id, born, key) in enumerate(zip(headers, *one[1:], strict=True)):
        command, request = read(serialization, header)
        assert (command.opaque, request.queue_id, request.born_timestamp) == (opaque, queue_id, born)
        assert request.properties.encode("utf-8", "surrogateescape") == known.before + key + known.after
        assert request == one.header(index)


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(1_000_000, 9_999_999),
            st.integers(0, 9),
            st.integers(10**12, 10**13 - 1),
            st.text("0123456789ABCDEFxyz", min_size=32, max_size=32),
        ),
        min_size=1,
        max_size=40,
    ),
    tail=st.sampled_from(["\x02WAIT\x01true\x02", "", "\x02", "\x02TAGS\x01rötlich\x02own\x01a b/c\x02"]),
)
def test_varying_fields_become_columns(
    serialization: int, kind: Any, rows: list[tuple[int, int, int, str]], tail: str
) -> None:
    known = learnt(serialization, header_of(serialization, sending(kind, tail=tail)))
    assert known is not None
    headers = [
        header_of(serialization, sending(kind, key, tail, queue_id=queue_id, born_timestamp=born), opaque)
        for opaque, queue_id, born, key in rows
    ]

    same(read_all(known, headers), headers, known, serialization)


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
@given(data=st.data())
def test_columns_of_mutated_headers_equal_their_single_decoding(serialization: int, data: st.DataObject) -> None:
    header = header_of(serialization, sending())
    known = learnt(serialization, header)
    assert known is not None
    changed = bytearray(header)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(header) - 1))
        changed[at] = data.draw(st.sampled_from(b'0123456789abcXYZ"\\,:{}\x00\x01\x02 -+.\xc3') | st.integers(0, 255))
    headers = [header, bytes(changed)]

    columns = read_all(known, headers)

    if columns is not None:
        same(columns, headers, known, serialization)


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
@pytest.mark.parametrize(
    "other",
    [
        sending(topic="orders-of-todaY"),
        sending(flag=1),
        sending(sys_flag=1),
        sending(tail="\x02WAIT\x01fals\x02"),
        sending(tail="\x02wAIT\x01true\x02"),
        sending(key=KEY[:-1] + "-"),
        sending(queue_id=-1, born_timestamp=170_000_000_000),
    ],
)
def test_headers_that_differ_elsewhere_do_not_match(serialization: int, other: h.SendMessageV2) -> None:
    header, odd = header_of(serialization, sending()), header_of(serialization, other)
    assert len(odd) == len(header)
    known = learnt(serialization, header)
    assert known is not None

    assert read_all(known, [header, odd, header]) is None
    assert read_all(known, [header] * 3) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"opaque":1234567', b'"opaque":0123456'),
        (b'"g":"1700000000000"', b'"g":"0170000000000"'),
        (b'"g":"1700000000000"', b'"g":"+170000000000"'),
        (b'"flag":0', b'"flag":2'),
    ],
)
def test_invalid_json_numbers_are_left_to_the_decoder(old: bytes, new: bytes) -> None:
    header = header_of(JSON, sending())
    known = learnt(JSON, header)
    assert known is not None
    assert old in header

    assert read_all(known, [header.replace(old, new)]) is None


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
@pytest.mark.parametrize(
    "request_",
    [
        sending(key="with-a-hyphen"),
        sending(born_timestamp=-1),
        sending(tail="\x02UNIQ_KEY\x01" + KEY),
        sending(tail="\x02own UNIQ_KEY\x01" + KEY),
        sending(properties="own UNIQ_KEY\x01" + KEY),
    ],
)
def test_unusual_headers_are_not_learnt(serialization: int, request_: Any) -> None:
    assert learnt(serialization, header_of(serialization, request_)) is None


@pytest.mark.parametrize(
    "header",
    [
        # Duplicate names: the decoder decides which one counts.
        header_of(JSON, sending()).replace(b'"e":"3"', b'"e":"3","e":"3"'),
        header_of(JSON, sending()).replace(b'"e":"3"', b'"\\u0065":"3","e":"3"'),
        header_of(JSON, sending()).replace(b'"flag":0', b'"flag":0,"opaque":1234567'),
        header_of(JSON, sending()).replace(b'"e":"3"', b'"e":3'),
        # Another layout, with a different value at the expected position.
        b'  {"3":0,' + header_of(JSON, sending()).replace(b'"e":"3"', b'"e": "3"')[1:],
        header_of(JSON, sending(), opaque=310).replace(b'"opaque":310', b'"opaque" :310'),
        header_of(JSON, sending(producer_group='"e":"3"')),
        header_of(JSON, sending(producer_group="e")),
        header_of(JSON, sending(producer_group="UNIQ_KEY\x01" + KEY)),
        header_of(JSON, sending(), opaque=2_000_000_000),
        header_of(JSON, sending(), opaque=-1),
    ],
)
def test_an_ambiguous_header_is_not_learnt(header: bytes) -> None:
    assert learnt(JSON, header) is None


@pytest.mark.parametrize(
    "header",
    [
        binary.encode(310, "JAVA", 493, 7, 0, "a remark", sending().ext()),
        binary.encode(310, "JAVA", 493, 7, 0, None, {**sending().ext(), "Signature": "another each time"}),
    ],
)
def test_a_binary_header_with_unexpected_content_is_not_learnt(header: bytes) -> None:
    assert learnt(BINARY, header) is None
