"""Questions asked before are answered without being read, and never with what no longer holds."""

import pytest

from kerolox.remoting import repeated
from kerolox.remoting.repeated import RepeatedQuestions
from kerolox.wire.command import plain_answer
from kerolox.wire.frames import PREFIX

HEADER = b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":%b,"version":513}'


def framed(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    return PREFIX.pack(4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def answered(known: RepeatedQuestions, header: bytes) -> bytes | None:
    """Returns the answer to one frame with this header, or None if it is left to the decoder."""
    out: list[bytes] = []
    frame = framed(header)
    count, end = known.answer(frame, out, size_max=1000)
    assert (count, end) == ((1, len(frame)) if out else (0, 0))
    return out[0] if out else None


BODY = b"body"


@pytest.fixture
def known() -> RepeatedQuestions:
    questions = RepeatedQuestions()
    questions.remember(HEADER % b"7", 7, BODY, lambda: BODY)
    return questions


def test_the_same_question_with_another_opaque_gets_the_same_body(known: RepeatedQuestions) -> None:
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
def test_another_question_is_not_taken_for_it(known: RepeatedQuestions, header: bytes) -> None:
    assert answered(known, header) is None


@pytest.mark.parametrize("opaque", [b"", b"007", b"-1", b"1.5", b'"7"', b" 7", b"1_0", b"9999999999", b"null", b"{}"])
def test_an_opaque_that_is_no_plain_number_is_left_to_the_decoder(known: RepeatedQuestions, opaque: bytes) -> None:
    assert answered(known, HEADER % opaque) is None


def test_what_no_longer_holds_is_not_given_again() -> None:
    known, answers = RepeatedQuestions(), {True: BODY}
    known.remember(HEADER % b"7", 7, BODY, lambda: answers.get(True))
    assert answered(known, HEADER % b"8") == plain_answer(8, b"body")

    answers[True] = b"another"
    assert answered(known, HEADER % b"9") is None
    answers.clear()
    assert answered(known, HEADER % b"9") is None


@pytest.mark.parametrize(
    ("header", "opaque"),
    [
        # The number belongs to somebody else's opaque, or to nobody's.
        (b'{"code":105,"extFields":{"a":1,"opaque":7},"opaque":7,"flag":0}', 7),
        (b'{"code":105,"extFields":{"a":1,"opaque":8,"topic":"T"},"flag":0}', 7),
        (b'{"code":105,"opaque":7,"opaqu\\u0065":7,"flag":0}', 7),
        (b'{"opaque":7,"code":105}', 7),
        (b'{"code":105,"opaque":7}', 7),
    ],
)
def test_a_header_whose_opaque_is_not_certain_is_not_remembered(header: bytes, opaque: int) -> None:
    known = RepeatedQuestions()

    known.remember(header, opaque, BODY, lambda: BODY)

    assert answered(known, header) is None


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "KNOWN_MAX", 10)
    known = RepeatedQuestions()

    for number in range(25):
        known.remember(HEADER.replace(b"T", b"T%d" % number) % b"7", 7, BODY, lambda: BODY)

    assert answered(known, HEADER.replace(b"T", b"T24") % b"7") is not None
    assert answered(known, HEADER.replace(b"T", b"T0") % b"7") is None


def test_clients_of_several_versions_may_ask_the_same_in_turn() -> None:
    known = RepeatedQuestions()
    headers = [HEADER.replace(b"513", b"%d" % version) for version in range(400, 406)]

    for header in headers:
        known.remember(header % b"7", 7, BODY, lambda: BODY)

    assert [answered(known, header % b"8") for header in headers] == [plain_answer(8, BODY)] * 6


def test_no_more_variants_are_kept_than_there_is_room_for() -> None:
    known = RepeatedQuestions()
    headers = [HEADER.replace(b"513", b"%d" % version) for version in range(400, 430)]

    for header in headers:
        known.remember(header % b"7", 7, BODY, lambda: BODY)

    assert answered(known, headers[-1] % b"8") == plain_answer(8, BODY)
    assert answered(known, headers[0] % b"8") is None


@pytest.mark.parametrize("digits", range(1, 10))
def test_an_opaque_of_any_length_is_framed_rightly(known: RepeatedQuestions, digits: int) -> None:
    opaque = int("9" * digits)

    assert answered(known, HEADER % str(opaque).encode()) == plain_answer(opaque, BODY)


def test_a_run_of_known_questions_ends_with_the_first_that_is_not(known: RepeatedQuestions) -> None:
    frames = [framed(HEADER % b"8"), framed(HEADER % b"9"), framed(b"{}"), framed(HEADER % b"10")]
    out: list[bytes] = []

    count, end = known.answer(b"".join(frames), out, size_max=1_000_000)

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
def test_frames_with_a_body_in_binary_or_not_all_there_are_left_alone(known: RepeatedQuestions, frame: bytes) -> None:
    out: list[bytes] = []

    assert known.answer(frame, out, size_max=1000) == (0, 0)
    assert out == []


def test_a_run_stops_when_enough_is_answered(known: RepeatedQuestions) -> None:
    out: list[bytes] = []

    count, _ = known.answer(framed(HEADER % b"8") * 100, out, size_max=3 * len(plain_answer(8, BODY)))

    assert count == len(out) == 3


def test_long_questions_are_not_remembered() -> None:
    known = RepeatedQuestions()
    header = HEADER.replace(b'"T"', b'"%b"' % (b"T" * 2000)) % b"7"

    known.remember(header, 7, BODY, lambda: BODY)

    assert answered(known, header) is None


def test_all_is_forgotten_when_it_would_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "KNOWN_BYTES_MAX", 10_000)
    known = RepeatedQuestions()

    for number in range(25):
        known.remember(HEADER.replace(b"T", b"T%d" % number) % b"7", 7, BODY, lambda: BODY)

    assert answered(known, HEADER.replace(b"T", b"T24") % b"7") is not None
    assert answered(known, HEADER.replace(b"T", b"T0") % b"7") is None
