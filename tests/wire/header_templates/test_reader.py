"""Headers that match a learnt template: what is learnt, remembered and forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.remoting.router import Incoming
from kerolox.wire import binary
from kerolox.wire.command import BINARY, JSON
from kerolox.wire.header import Request
from kerolox.wire.header_templates import reader
from kerolox.wire.header_templates.columns import compile_columns
from kerolox.wire.header_templates.reader import HeaderTemplates
from kerolox.wire.header_templates.single import compile_single
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
    """Decode a header and learn from it, as a server does."""
    _, language, _, _, _, _, fields = binary.decode(header)
    known.learn(header, request.decode(fields), language)


def requests_in(known: HeaderTemplates) -> list[Any]:
    """Return the decoded requests that are remembered."""
    kept = [requests for _, requests in known._single.values()]
    return [request for requests in kept for request in (*requests.values(), *requests._older.values())]


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
    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING))

    assert all(known.read(encoded(h.SendMessageV2, SENDING | {"e": queue_id})) for queue_id in ("1", "12", "123"))


def test_requests_of_many_groups_and_topics_match_once_each_was_decoded() -> None:
    known = HeaderTemplates()
    headers = [
        encoded(h.SendMessageV2, SENDING | {"a": f"group-{group}", "b": f"topic-{topic}" * topic})
        for group in range(40)
        for topic in range(1, 40)
    ]
    for header in headers:
        learn(known, h.SendMessageV2, header)

    for header in headers:
        found = known.read(header)
        assert found is not None
        assert found[-1] == h.SendMessageV2.decode(binary.decode(header)[-1])


def test_clients_that_write_fields_in_another_order_all_match() -> None:
    known = HeaderTemplates()
    orders = [SENDING, dict(sorted(SENDING.items(), reverse=True)), {"i": "x", "g": "1", "e": "0", **SENDING}]
    for _ in range(100):
        for fields in orders:
            learn(known, h.SendMessageV2, encoded(h.SendMessageV2, fields))

    for fields in orders:
        found = known.read(encoded(h.SendMessageV2, fields | {"i": "UNIQ_KEY\x01B\x02", "e": "12"}))
        assert found is not None
        assert found[-1] == h.SendMessageV2.decode(fields | {"i": "UNIQ_KEY\x01B\x02", "e": "12"})


def test_a_request_with_a_signature_is_not_learnt() -> None:
    """The signature differs in each request."""
    known = HeaderTemplates()

    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"Signature": "abc"}))

    assert not requests_in(known)


def test_a_request_with_an_undecodable_empty_field_is_not_learnt() -> None:
    """The decoder drops the empty field before it decodes its name."""
    known = HeaderTemplates()
    section = binary.encode_fields(SENDING) + b"\0\2\xff\xfe\0\0\0\0"
    header = encoded(h.SendMessageV2, SENDING)[:17] + len(section).to_bytes(4) + section

    learn(known, h.SendMessageV2, header)

    assert not requests_in(known)


def test_neither_long_nor_varying_fields_are_kept_in_templates() -> None:
    known = HeaderTemplates()
    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"a": "x" * 10_000}))
    assert not requests_in(known)

    learn(known, h.SendMessageV2, encoded(h.SendMessageV2, SENDING | {"i": "x" * 1_000_000}))
    (request,) = requests_in(known)
    assert len(str(request)) < 1_000


def in_order(number: int) -> dict[str, str]:
    """Return the fields in one of twelve orders."""
    names = list(SENDING)
    return {name: SENDING[name] for name in names[number % 12 :] + names[: number % 12]}


def test_the_number_of_templates_and_requests_is_limited() -> None:
    known = HeaderTemplates(requests_max=50, wait_count_max=0)
    for number in range(200):
        learn(known, h.SendMessageV2, encoded(h.SendMessageV2, in_order(number) | {"b": f"topic-{number}"}))

    assert len(requests_in(known)) <= 50
    assert sum(len(variants) for variants, _ in known._single.values()) <= 8


def test_headers_in_use_are_remembered_beside_a_client_with_ever_new_ones() -> None:
    known = HeaderTemplates(requests_max=50, wait_count_max=0)
    usual = encoded(h.SendMessageV2, SENDING)
    learn(known, h.SendMessageV2, usual)

    for number in range(1, 1000):
        learn(known, h.SendMessageV2, encoded(h.SendMessageV2, in_order(number) | {"b": f"topic-{number}"}))
        assert known.read(usual) is not None

    assert known.read(encoded(h.SendMessageV2, in_order(1) | {"b": "topic-1"})) is None


def test_a_client_with_ever_new_headers_has_few_templates_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    known = HeaderTemplates()
    compiled: list[bytes] = []

    def note(header: bytes, *rest: Any) -> Any:
        compiled.append(header)
        return compile_single(header, *rest)

    monkeypatch.setattr(reader, "compile_single", note)
    for number in range(10_000):
        learn(known, h.SendMessageV2, encoded(h.SendMessageV2, in_order(number) | {"j": str(number)}))

    assert len(compiled) < 12


def test_the_language_of_a_request_is_that_of_its_client() -> None:
    known = HeaderTemplates()
    for language in ("JAVA", "CPP"):
        for _ in range(20):
            header = binary.encode(h.SendMessageV2.code, language, 493, 7, 0, None, SENDING)
            known.learn(header, h.SendMessageV2.decode(SENDING), language)

        found = known.read(binary.encode(h.SendMessageV2.code, language, 123, 9, 0, None, SENDING))

        assert found is not None
        assert found[1:5] == (language, 123, 9, 0)


def columns_of(known: HeaderTemplates, topic: str, count: int = 16, *, is_learning: bool = True) -> bool:
    """Read equal headers as columns, or decode them and learn from the first; whether they were read."""
    headers = [encoded(h.SendMessageV2, SENDING | {"b": topic}, opaque) for opaque in range(count)]
    if known.read_columns([BINARY] * count, headers) is not None:
        return True
    if is_learning:
        request = h.SendMessageV2.decode(binary.decode(headers[0])[-1])
        code = h.SendMessageV2.code
        known.learn_columns(headers[0], Incoming(code=code, opaque=0, serialization=BINARY, header=request), count)
    return False


def test_equal_headers_are_read_as_columns_beside_a_client_with_ever_new_ones() -> None:
    known = HeaderTemplates(columns_max=8)
    for topic in ("orders", "refunds"):
        while not columns_of(known, topic):
            pass

    for number in range(2000):
        columns_of(known, f"topic-{number}")
        assert columns_of(known, "orders", is_learning=False)
        assert columns_of(known, "refunds", is_learning=False)
    assert len(known._columns) <= 8


def test_a_client_with_ever_new_headers_has_few_columns_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    known = HeaderTemplates()
    columns_of(known, "orders")
    learnt: list[bytes] = []

    def note(header: bytes, request: Any) -> Any:
        learnt.append(header)
        return compile_columns(header, request)

    monkeypatch.setattr(reader, "compile_columns", note)
    for number in range(1000):
        columns_of(known, f"topic-{number}")
        # The template of another client is in use all the time.
        assert columns_of(known, "orders", is_learning=False)

    assert len(learnt) < 12


def test_while_templates_are_used_the_next_are_learnt_soon() -> None:
    known = HeaderTemplates()

    for number in range(20):
        read = [columns_of(known, f"topic-{number}") for _ in range(4)]

        assert read[-1], number


def test_a_template_that_keeps_failing_is_forgotten() -> None:
    known = HeaderTemplates()
    columns_of(known, "orders")
    usual, other = (encoded(h.SendMessageV2, SENDING | {"b": "orders", "k": text}) for text in ("false", "FALSE"))

    for _ in range(3):
        assert known.read_columns([BINARY] * 2, [usual, other]) is None
    assert known.read_columns([BINARY] * 2, [usual, usual]) is not None
    for _ in range(4):
        assert known.read_columns([BINARY] * 2, [usual, other]) is None

    assert known.read_columns([BINARY] * 2, [usual, usual]) is None


@pytest.mark.parametrize("size", [800, 1024])
def test_long_headers_are_not_learnt_as_columns(size: int) -> None:
    known = HeaderTemplates()

    for _ in range(2):
        columns_of(known, "t" * size)

    assert columns_of(known, "t" * size) is (size == 800)


def test_headers_of_two_sizes_or_serializations_are_not_read_as_columns() -> None:
    known = HeaderTemplates()
    columns_of(known, "orders")
    usual, longer = (encoded(h.SendMessageV2, SENDING | {"b": "orders", "e": queue_id}) for queue_id in ("3", "12"))

    for _ in range(10):
        assert known.read_columns([BINARY] * 2, [usual, longer]) is None
        assert known.read_columns([BINARY, JSON], [usual, usual]) is None

    assert known.read_columns([BINARY] * 2, [usual, usual]) is not None
