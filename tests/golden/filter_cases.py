"""Expressions, and the properties of messages that they are tried on: see README.md."""

import json
from pathlib import Path

PROPERTIES: tuple[dict[str, str], ...] = (
    {},
    {"a": "1", "b": "2", "c": "x"},
    {"a": "5", "b": "5", "c": "5"},
    {"a": "5.0", "b": "5", "c": "it's"},
    {"a": "10", "b": "9", "c": "true"},
    {"a": "-3", "b": "-3.5", "c": "TRUE"},
    {"a": "+7", "b": " 7 ", "c": "false"},
    {"a": "2147483647", "b": "2147483648", "c": "yes"},
    {"a": "-2147483648", "b": "-2147483649", "c": "abc"},
    {"a": "9223372036854775807", "b": "9223372036854775808", "c": "ab"},
    {"a": "1e3", "b": "1000", "c": "b"},
    {"a": "NaN", "b": "Infinity", "c": "null"},
    {"a": "-0.0", "b": "0", "c": "-Infinity"},
    {"a": "0.0", "b": "-0.0", "c": "NULL"},
    {"a": "0x1p3", "b": "8d", "c": "7.5f"},
    {"a": "1_0", "b": "inf", "c": "nan"},
    {"a": "٣", "b": "3", "c": "é"},
    {"a": "x", "b": "x", "c": "中文标签"},
    {"a": "1.", "b": ".5", "c": "a b"},
    {"a": "true", "b": "false", "c": "True"},
    {"b": "3"},
    {"a": "3"},
    {"A": "5", "a": "4", "$p": "1", "_q": "2", "TAGS": "TagA", "KEYS": "k1 k2"},
    {"a": "1e400", "b": "-1e400", "c": "1e-400"},
    {"a": "0.1", "b": "0.10000000000000000555", "c": "+"},
    {"a": "007", "b": "0", "c": "-"},
    {"a": "9007199254740993", "b": "9007199254740992", "c": "9007199254740993.0"},
    {"a": "1\x012", "b": "\t5\n", "c": "5 "},
    {"a": "𝟑", "b": "３", "c": "\U0001f600"},
)

_LINES = (Path(__file__).parent / "filter_expressions.jsonl").read_text().split("\n")
EXPRESSIONS: tuple[str, ...] = tuple(json.loads(line) for line in _LINES if line)

# Java takes the beginning for the whole; a consumer who wrote these meant something else.
IGNORED_BY_JAVA = (
    *("now() > 5", "(a = 5))", "a = 07", "a = 0L", "a = 00", "a = 0x10", "a = 1.5L", "a = 1e", "a = 1.5.5"),
    *("a = 5f", "a = 5d", "a = 1L L", "a = 5LL", "a = 5.e", "c = ''x'", "c = 'x' 'y'", "a-b = 5"),
    *("c LIKE 'x'", "c LIKE 'x%'", "a = 5 AND c LIKE 'x%'", "a + 1 = 2", "a - 1 = 2", "a = 5 + 1"),
    *("a = 5 b = 5", "a b", "a = 5 (b = 5)", "(a = 5) (b = 5)", "a > 5 5", "TRUE TRUE", "TRUE FALSE"),
    *("a = 5 TRUE", "a = 5,", "a = 5)", "a = 5 'x'", "XPATH 'x'", "a = 5 LIMIT 1", "SELECT a"),
)

HASHED = (
    *("", "a", "group#topic", "CID_JODIE_1#TopicTest", "Gruppe-é#主题", "x" * 100, "\U0001f600#t"),
    *("0123456789abcde", "0123456789abcdef", "0123456789abcdef0"),
)
