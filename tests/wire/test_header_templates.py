"""Binary headers that match a learnt template."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.wire import binary, header_templates
from kerolox.wire.header import Request
from kerolox.wire.header_templates import HeaderTemplates
from kerolox.wire.headers import messages as h

SENDING = {
    "a": "producers-of-orders",
    "b": "orders-of-today",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01A\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}
PULLING = {
    "consumerGroup": "consumers-of-orders",
    "topic": "orders-of-today",
    "queueId": "3",
    "queueOffset": "1234",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "subVersion": "1700000000000",
    "bname": "broker-a",
    "ReqT": "0",
}
REQUESTS: list[tuple[type[Request[Any]], dict[str, str]]] = [
    (h.SendMessageV2, SENDING),
    (h.SendBatchMessage, SENDING),
    (h.PullMessage, PULLING),
]
numbers = st.integers(-(2**65), 2**65).map(str) | st.integers(0, 20).map(str)
values = numbers | st.sampled_from(["007", "00", "+1", " 1", "1_0", "１", "1.0", "1e3", "true", "é"])


def encoded(request: type[Request[Any]], fields: dict[str, str], opaque: int = 7, flag: int = 0) -> bytes:
    return binary.encode(request.code, "JAVA", 493, opaque, flag, None, fields)


def learn(known: HeaderTemplates, request: type[Request[Any]], header: bytes) -> None:
    """Decode a header and learns its template, as a server does."""
    _, language, version, _, _, _, fields = binary.decode(header)
    known.learn(header, request.decode(fields), language, version)


def shapes_in(known: HeaderTemplates) -> list[Any]:
    return [shape for variants in known._templates.values() for shape in variants]


@pytest.mark.parametrize(("request_type", "fields"), REQUESTS)
@given(
    changes=st.lists(st.tuples(st.integers(0, 11), values), max_size=3),
    opaque=st.integers(-(2**31), 2**31 - 1),
    flag=st.sampled_from([0, 1, 2]),
)
def test_a_template_match_equals_the_decoder(
    request_type: type[Request[Any]],
    fields: dict[str, str],
    changes: list[tuple[int, str]],
    opaque: int,
    flag: int,
) -> None:
    known = HeaderTemplates()
    learn(known, request_type, encoded(request_type, fields))
    names = list(fields)
    changed = fields | {names[at % len(names)]: value for at, value in changes}
    header = encoded(request_type, changed, opaque, flag)

    found = known.read(header)

    if found is not None:
        code, language, version, opaque, flag, _, decoded = binary.decode(header)
        assert found == (code, language, version, opaque, flag, request_type.decode(decoded))


@pytest.mark.parametrize(("request_type", "fields"), REQUESTS)
@given(at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400), more=st.binary(max_size=3))
def test_a_damaged_header_matches_only_as_the_decoder_reads_it(
    request_type: type[Request[Any]], fields: dict[str, str], at: int, byte: int, cut: int, more: bytes
) -> None:
    known = HeaderTemplates()
    usual = encoded(request_type, fields)
    learn(known, request_type, usual)
    wrong = bytearray(usual)
    wrong[at % len(wrong)] = byte

    for header in (bytes(wrong), usual[:cut], usual + more):
        try:
            found = known.read(header)
        except UnicodeError:
            with pytest.raises(UnicodeError):
                binary.decode(header)
            continue
        if found is not None:
            code, language, version, opaque, flag, _, decoded = binary.decode(header)
            assert found == (code, language, version, opaque, flag, request_type.decode(decoded))


@pytest.mark.parametrize(
    ("request_type", "fields", "change"),
    [
        (h.SendMessageV2, SENDING, {"e": "5", "g": "1800000000000", "i": "UNIQ_KEY\x01é\x02"}),
        (h.SendBatchMessage, SENDING, {"e": "0", "i": "x" * 30_000}),
        (h.SendMessageV2, SENDING | {"a": "p", "b": "t"}, {"e": "0", "g": "1800000000000"}),
        (h.PullMessage, PULLING, {"queueId": "0", "queueOffset": "9876", "commitOffset": "9"}),
        (h.PullMessage, PULLING | {"consumerGroup": "c", "topic": "t"}, {"queueId": "0", "queueOffset": "9876"}),
    ],
)
def test_a_request_with_other_usual_values_matches(
    request_type: type[Request[Any]], fields: dict[str, str], change: dict[str, str]
) -> None:
    known = HeaderTemplates()
    learn(known, request_type, encoded(request_type, fields))

    found = known.read(encoded(request_type, fields | change))

    assert found is not None
    assert found[-1] == request_type.decode(fields | change)


def test_requests_that_differ_in_the_digits_of_a_number_all_match() -> None:
    known = HeaderTemplates()
    requests = [encoded(h.SendMessageV2, SENDING | {"e": queue_id}) for queue_id in ("1", "12", "123")]
    for header in requests:
        learn(known, h.SendMessageV2, header)

    assert all(known.read(header) for header in requests)


def test_a_request_with_a_signature_is_not_learnt() -> None:
    """The signature differs in each request."""
    known = HeaderTemplates()

    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"Signature": "abc"}))

    assert not shapes_in(known)


def test_a_request_with_an_undecodable_empty_field_is_not_learnt() -> None:
    """The decoder drops the empty field before it decodes its name."""
    known = HeaderTemplates()
    section = binary.encode_fields(SENDING) + b"\0\2\xff\xfe\0\0\0\0"
    header = encoded(h.SendMessageV2, SENDING)[:17] + len(section).to_bytes(4) + section

    learn(known, h.SendMessageV2, header)

    assert not shapes_in(known)


def test_neither_long_nor_varying_fields_are_kept_in_templates() -> None:
    known = HeaderTemplates()
    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"a": "x" * 10_000}))
    assert not shapes_in(known)

    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"i": "x" * 1_000_000}))
    (shape,) = shapes_in(known)
    assert sum(map(len, shape.constants)) + len(str(shape.request)) < 5_000


def test_the_number_of_templates_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_templates, "_KEYS_MAX", 10)
    known = HeaderTemplates()
    for number in range(100):
        for unit_mode in range(20):
            fields = SENDING | {"a": "p" * (1 + number % 30), "b": f"{number}", "j": str(unit_mode)}
            learn(known, h.SendMessageV2, encoded(h.SendMessageV2, fields))

    assert len(known._templates) <= 10
    assert len(shapes_in(known)) <= 80
    assert len(known._key_sizes) <= 8
