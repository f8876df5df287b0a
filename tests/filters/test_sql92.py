"""SQL92 expressions, compared with the results of Java's parser and evaluation."""

import json
from pathlib import Path
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.filters.errors import EvaluationError, ExpressionError
from kerolox.filters.sql92 import SIZE_MAX, TOKENS_MAX, compile_expression
from kerolox.message import properties
from tests.golden.filter_cases import IGNORED_BY_JAVA, PROPERTIES

GOLDEN = Path(__file__).parent.parent / "golden"
OPERATORS_OF_5 = ("contains", "startswith", "endswith")


def golden(version: str) -> list[dict[str, str]]:
    lines = (GOLDEN / f"filters-{version}.jsonl").read_text().split("\n")
    return [answer for line in lines if line and "expression" in (answer := json.loads(line))]


def evaluate_all(text: str) -> str:
    """Return a letter for each of PROPERTIES as the golden files have them."""
    expression = compile_expression(text)
    letters = {True: "T", False: "F", None: "N"}
    results = ""
    for each in PROPERTIES:
        try:
            results += letters[expression.evaluate(properties.to_bytes(each))]
        except EvaluationError:
            results += "E"
    return results


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_expressions_compile_and_evaluate_as_in_java(version: str) -> None:
    differences = []
    for answer in golden(version):
        text = answer["expression"]
        if text in IGNORED_BY_JAVA or (version < "5" and any(word in text.lower() for word in OPERATORS_OF_5)):
            continue
        try:
            result = {"results": evaluate_all(text)}
        except ExpressionError as error:
            result = {"error": str(error)}
        if result.get("results") != answer.get("results"):
            differences.append((text, answer, result))

    assert differences == []


def test_text_after_a_complete_expression_is_an_error() -> None:
    for answer in golden("5.5.0"):
        if answer["expression"] in IGNORED_BY_JAVA:
            assert "results" in answer
            with pytest.raises(ExpressionError):
                compile_expression(answer["expression"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = = 5", "line 1, column 5: found '=', expected one of ( + - FALSE NOT NULL TRUE"),
        ("a > 1 AND\n  b >", "line 2, column 6: found the end, expected one of"),
        ("c LIKE 'x%'", "line 1, column 3: found 'LIKE', expected one of < <= <> = > >= AND BETWEEN CONTAINS"),
        ("a = 5;", "line 1, column 6: unexpected character ';'"),
        ("a > 'x'", "line 1, column 5: \"'x'\" cannot be compared by >, >=, <, <= or BETWEEN"),
        ("a = NULL", "line 1, column 5: 'NULL' cannot be compared: use IS NULL or IS NOT NULL"),
        ("a BETWEEN 5 AND 1", "line 1, column 11: '5' must be less than or equal to the upper bound of BETWEEN"),
        ("a = 1 AND 5", "line 1, column 11: '5' is neither true nor false"),
        ("a = 9223372036854775808", "line 1, column 5: '9223372036854775808' is greater than 9223372036854775807"),
        ("5 IN ('5')", "line 1, column 1: '5' is not a property, which IN requires"),
    ],
)
def test_the_error_names_the_position_and_the_reason(text: str, problem: str) -> None:
    # The second error comes from the cache.
    for _ in range(2):
        with pytest.raises(ExpressionError) as raised:
            compile_expression(text)

        assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1".ljust(SIZE_MAX + 1), f"expression of {SIZE_MAX + 1} characters, at most {SIZE_MAX} allowed"),
        (" OR ".join(["a"] * TOKENS_MAX), f"expression of more than {TOKENS_MAX} tokens"),
        ("NOT " * 500 + "a", "nested more than 64 deep"),
        ("- " * 500 + "a = 5", "nested more than 64 deep"),
        ("a" + " = a" * 500, "nested more than 64 deep"),
        ("a" + " IS NULL" * 500, "nested more than 64 deep"),
        (" OR ".join(["a = 1"] * 300), "'a = 1' and what follows have more than 512 terms"),
        # In each of these BETWEEN scans twice at what is before it.
        ("-(" * 20 + "a > 1" + ") BETWEEN 1 AND 2" * 20, "have more than 512 terms"),
        ("(" * TOKENS_MAX, "found the end"),
        ("a = " + "9" * 10_000, "is greater than"),
    ],
)
def test_expensive_expressions_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        compile_expression(text)


def test_long_lists_and_many_parentheses_are_accepted() -> None:
    count = TOKENS_MAX // 2 - 10
    listed = compile_expression("a IN (" + ",".join(f"'{number}'" for number in range(count)) + ")")
    nested = compile_expression("(" * count + "a = 5" + ")" * count)

    assert listed.matches(b"a\x01777\x02")
    assert not listed.matches(b"a\x01x\x02")
    assert nested.matches(b"a\x015\x02")


class CountingBytes(bytes):
    """Properties that count how often they are scanned."""

    scans = 0

    def rpartition(self, separator: Any, /) -> tuple[bytes, bytes, bytes]:
        self.scans += 1
        return super().rpartition(separator)

    def split(self, separator: Any = None, maxsplit: SupportsIndex = -1) -> list[bytes]:
        self.scans += 1
        return super().split(separator, maxsplit)


@pytest.mark.parametrize("word", ["OR", "AND"])
def test_properties_are_scanned_once_however_many_terms_there_are(word: str) -> None:
    """Property may have 32 KiB, and an expression hundreds of terms."""
    every = compile_expression(f" {word} ".join(f"p{number} = {number}" for number in range(250)))
    one = CountingBytes(properties.to_bytes({f"p{number}": str(number + (word == "OR")) for number in range(250)}))

    assert every.matches(one) is (word == "AND")

    assert one.scans == 1
    few = CountingBytes(one)
    assert compile_expression("p1 = 1").matches(few) is (word == "AND")
    assert few.scans == 1


names = st.sampled_from(["a", "b", "c"])
literals = st.sampled_from(["1", "5", "2.5", "3000000000", "'5'", "'x'", "TRUE", "NULL", "-1", "- 'x'"])
operands = names | literals
conditions = st.recursive(
    st.builds("{} {} {}".format, operands, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands)
    | st.builds("{} {}".format, operands, st.sampled_from(["IS NULL", "IS NOT NULL", "IN ('5', 'x')", "CONTAINS 'x'"]))
    | st.builds("{} BETWEEN {} AND {}".format, operands, operands, operands)
    | operands,
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR", "=", "<>", "<"]), inner)
        | st.builds("NOT ({})".format, inner)
        | st.builds("-({})".format, inner)
    ),
    max_leaves=8,
)


@given(conditions | st.text(max_size=30), st.dictionaries(names, st.sampled_from(["1", "5", "x", "true", "1e9", "é"])))
def test_any_expression_is_refused_or_gives_true_false_unknown_or_an_error(text: str, values: dict[str, str]) -> None:
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return
    data = properties.to_bytes(values)
    try:
        result = expression.evaluate(data)
    except EvaluationError:
        result = None

    assert result in (True, False, None)
    assert expression.matches(data) is (result is True)


def test_an_unknown_or_failing_expression_does_not_match() -> None:
    expression = compile_expression("a > 5")

    assert expression.matches(b"a\x016\x02")
    assert not expression.matches(b"a\x014\x02")
    assert not expression.matches(b"b\x016\x02")
    assert not expression.matches(b"a\x01six\x02")
    assert not expression.matches(b"")


def test_a_property_is_found_among_others_that_look_like_it() -> None:
    expression = compile_expression("a = '5'")

    assert expression.matches(b"aa\x014\x02a\x015\x02b\x01a\x013\x02")
    assert not expression.matches(b"aa\x015\x02b\x01a\x015\x02")
