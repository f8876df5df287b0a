"""Repeated requests are answered from the cache without decoding, and never with a stale response."""

from typing import Any

import pytest

from kerolox.codes import RequestCode
from kerolox.remoting import response_cache
from kerolox.remoting.response_cache import ResponseCache
from kerolox.remoting.router import Incoming
from kerolox.wire.command import plain_answer
from kerolox.wire.frames import PREFIX
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

HEADER = b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":%b,"version":513}'


def framed(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    return PREFIX.pack(4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def answered(known: ResponseCache, header: bytes) -> bytes | None:
    """Return the cached response to a frame with this header; None if it is left to the decoder."""
    out: list[bytes | memoryview] = []
    frame = framed(header)
    count, end = known.answer(frame, out, NOBODY, size_max=1000)
    assert (count, end) == ((1, len(frame)) if out else (0, 0))
    return bytes(out[0]) if out else None


BODY = b"body"
NOBODY: Any = None


def asked(opaque: int) -> Incoming[Any]:
    return Incoming(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=opaque, header=GetRouteInfoByTopic(topic="T"))


@pytest.fixture
def known() -> ResponseCache:
    questions = ResponseCache()
    questions.remember(HEADER % b"7", asked(7), BODY, lambda: BODY)
    return questions


def test_an_equal_request_with_another_opaque_gets_the_same_body(known: ResponseCache) -> None:
    assert answered(known, HEADER % b"123456789") == plain_answer(123_456_789, b"body")


@pytest.mark.parametrize(
    "header",
    [
        HEADER.replace(b'"T"', b'"U"') % b"7",
        HEADER.replace(b"513", b"121") % b"7",
        HEADER.replace(b'"flag":0', b'"flag":2') % b"7",
        b"",
        b"{}",
        b'{"code":105}',
        HEADER.replace(b',"version":513', b"") % b"7",
    ],
)
def test_a_different_request_does_not_match(known: ResponseCache, header: bytes) -> None:
    assert answered(known, header) is None


@pytest.mark.parametrize("opaque", [b"", b"007", b"-1", b"1.5", b'"7"', b" 7", b"1_0", b"9999999999", b"null", b"{}"])
def test_an_opaque_that_is_not_a_plain_number_is_left_to_the_decoder(known: ResponseCache, opaque: bytes) -> None:
    assert answered(known, HEADER % opaque) is None


def test_an_invalidated_response_is_not_served() -> None:
    known, answers = ResponseCache(), {True: BODY}
    known.remember(HEADER % b"7", asked(7), BODY, lambda: answers.get(True))
    assert answered(known, HEADER % b"8") == plain_answer(8, b"body")

    answers[True] = b"another"
    assert answered(known, HEADER % b"9") is None
    answers.clear()
    assert answered(known, HEADER % b"9") is None


@pytest.mark.parametrize(
    ("header", "opaque"),
    [
        # The digits are not those of the opaque.
        (b'{"code":105,"extFields":{"a":1,"opaque":7},"opaque":7,"flag":0}', 7),
        (b'{"code":105,"extFields":{"a":1,"opaque":8,"topic":"T"},"flag":0}', 7),
        (b'{"code":105,"opaque":7,"opaqu\\u0065":7,"flag":0}', 7),
        (b'{"opaque":7,"code":105}', 7),
        (b'{"code":105,"opaque":7}', 7),
    ],
)
def test_a_header_with_an_ambiguous_opaque_is_not_cached(header: bytes, opaque: int) -> None:
    known = ResponseCache()

    known.remember(header, asked(opaque), BODY, lambda: BODY)

    assert answered(known, header) is None


def test_the_number_of_cached_responses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "KNOWN_MAX", 10)
    known = ResponseCache()

    for number in range(25):
        known.remember(HEADER.replace(b"T", b"T%d" % number) % b"7", asked(7), BODY, lambda: BODY)

    assert answered(known, HEADER.replace(b"T", b"T24") % b"7") is not None
    assert answered(known, HEADER.replace(b"T", b"T0") % b"7") is None


def test_headers_of_several_client_versions_are_cached() -> None:
    known = ResponseCache()
    headers = [HEADER.replace(b"513", b"%d" % version) for version in range(400, 406)]

    for header in headers:
        known.remember(header % b"7", asked(7), BODY, lambda: BODY)

    assert [answered(known, header % b"8") for header in headers] == [plain_answer(8, BODY)] * 6


def test_the_number_of_header_variants_is_limited() -> None:
    known = ResponseCache()
    headers = [HEADER.replace(b"513", b"%d" % version) for version in range(400, 430)]

    for header in headers:
        known.remember(header % b"7", asked(7), BODY, lambda: BODY)

    assert answered(known, headers[-1] % b"8") == plain_answer(8, BODY)
    assert answered(known, headers[0] % b"8") is None


@pytest.mark.parametrize("digits", range(1, 10))
def test_an_opaque_of_any_length_is_framed_correctly(known: ResponseCache, digits: int) -> None:
    opaque = int("9" * digits)

    assert answered(known, HEADER % str(opaque).encode()) == plain_answer(opaque, BODY)


def test_a_run_of_cached_requests_ends_at_the_first_unknown_one(known: ResponseCache) -> None:
    frames = [framed(HEADER % b"8"), framed(HEADER % b"9"), framed(b"{}"), framed(HEADER % b"10")]
    out: list[bytes | memoryview] = []

    count, end = known.answer(b"".join(frames), out, NOBODY, size_max=1_000_000)

    assert (count, end) == (2, len(frames[0]) + len(frames[1]))
    assert out == [plain_answer(8, BODY), plain_answer(9, BODY)]


@pytest.mark.parametrize(
    "frame",
    [
        framed(HEADER % b"8", body=b"x"),
        framed(HEADER % b"8", serialization=1),
        framed(HEADER % b"8")[:-1],
        framed(HEADER % b"8")[:5],
        b"",
    ],
)
def test_frames_with_a_body_binary_or_incomplete_frames_are_left_to_the_decoder(
    known: ResponseCache, frame: bytes
) -> None:
    out: list[bytes | memoryview] = []

    assert known.answer(frame, out, NOBODY, size_max=1000) == (0, 0)
    assert out == []


def test_a_run_stops_at_the_size_limit_of_responses(known: ResponseCache) -> None:
    out: list[bytes | memoryview] = []

    count, _ = known.answer(framed(HEADER % b"8") * 100, out, NOBODY, size_max=3 * len(plain_answer(8, BODY)))

    assert count == len(out) == 3


def test_long_requests_are_not_cached() -> None:
    known = ResponseCache()
    header = HEADER.replace(b'"T"', b'"%b"' % (b"T" * 2000)) % b"7"

    known.remember(header, asked(7), BODY, lambda: BODY)

    assert answered(known, header) is None


def test_the_cache_is_cleared_when_it_would_exceed_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "KNOWN_BYTES_MAX", 10_000)
    known = ResponseCache()

    for number in range(25):
        known.remember(HEADER.replace(b"T", b"T%d" % number) % b"7", asked(7), BODY, lambda: BODY)

    assert answered(known, HEADER.replace(b"T", b"T24") % b"7") is not None
    assert answered(known, HEADER.replace(b"T", b"T0") % b"7") is None


def test_a_request_that_is_not_admitted_is_left_to_the_decoder() -> None:
    admitted = [True, False]
    known = ResponseCache(lambda request, connection: admitted.pop(0))
    known.remember(HEADER % b"7", asked(7), BODY, lambda: BODY)

    assert answered(known, HEADER % b"8") == plain_answer(8, BODY)
    assert answered(known, HEADER % b"9") is None
