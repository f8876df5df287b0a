"""Escaping of untrusted text for terminals and logs."""

import json
import unicodedata

from kerolox.runtime.text.terminal import escape_json, escape_line, escape_lines

WRITTEN = "caf\u00e9\tone\r\ntwo \x1b[31m\x7f\x85 \u65e5"


def test_control_characters_are_escaped() -> None:
    assert escape_line(WRITTEN) == "caf\u00e9\tone\\x0d\\x0atwo \\x1b[31m\\x7f\\x85 \u65e5"


def test_escape_lines_keeps_line_ends() -> None:
    assert escape_lines(WRITTEN) == "caf\u00e9\tone\\x0d\ntwo \\x1b[31m\\x7f\\x85 \u65e5"


def test_bidirectional_marks_and_invisible_characters_are_escaped() -> None:
    written = "pay\u202egnp.exe\u2069 a\u200bb\u2028c\ufeff\U000e0041"

    assert escape_lines(written) == r"pay\u202egnp.exe\u2069 a\u200bb\u2028c\ufeff\U000e0041"


def test_no_control_separator_or_bidirectional_override_is_left() -> None:
    everything = "".join(map(chr, range(0xD800)))

    left = {unicodedata.category(char) for char in escape_line(everything).replace("\t", "")}

    assert left.isdisjoint({"Cc", "Zl", "Zp"})
    assert all(unicodedata.bidirectional(char) not in _OVERRIDES for char in escape_line(everything))


_OVERRIDES = {"LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_letters_and_joiners_are_kept() -> None:
    written = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f467"

    assert escape_line(written) == written


def test_escaped_json_is_equivalent_and_has_no_unsafe_characters() -> None:
    value = {"name": "a\x1b\x7f\x9b\u202e\U000e0041\u65e5"}
    encoded = json.dumps(value, ensure_ascii=False)

    assert json.loads(escape_json(encoded)) == value
    assert escape_json(encoded) == '{"name": "a\\u001b\\u007f\\u009b\\u202e\\udb40\\udc41\u65e5"}'
