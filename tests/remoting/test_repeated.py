"""Questions asked before are answered without being read, and never with what no longer holds."""

import pytest

from kerolox.remoting import repeated
from kerolox.remoting.repeated import RepeatedQuestions
from kerolox.wire.command import plain_answer

HEADER = b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":%b,"version":513}'


@pytest.fixture
def known() -> RepeatedQuestions:
    questions = RepeatedQuestions()
    questions.remember(HEADER % b"7", 7, lambda: b"body")
    return questions


def test_the_same_question_with_another_opaque_gets_the_same_body(known: RepeatedQuestions) -> None:
    assert known.answer(HEADER % b"123456789") == plain_answer(123_456_789, b"body")


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
    assert known.answer(header) is None


@pytest.mark.parametrize("opaque", [b"", b"-1", b"1.5", b'"7"', b" 7", b"1_0", b"9999999999", b"null", b"{}"])
def test_an_opaque_that_is_no_plain_number_is_left_to_the_decoder(known: RepeatedQuestions, opaque: bytes) -> None:
    assert known.answer(HEADER % opaque) is None


def test_what_no_longer_holds_is_not_given_again() -> None:
    known, answers = RepeatedQuestions(), {True: b"body"}
    known.remember(HEADER % b"7", 7, lambda: answers.get(True))
    assert known.answer(HEADER % b"8") == plain_answer(8, b"body")

    answers.clear()

    assert known.answer(HEADER % b"9") is None


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

    known.remember(header, opaque, lambda: b"body")

    assert known.answer(header) is None


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "KNOWN_MAX", 10)
    known = RepeatedQuestions()

    for number in range(25):
        known.remember(HEADER.replace(b"T", b"T%d" % number) % b"7", 7, lambda: b"body")

    assert known.answer(HEADER.replace(b"T", b"T24") % b"7") is not None
    assert known.answer(HEADER.replace(b"T", b"T0") % b"7") is None
