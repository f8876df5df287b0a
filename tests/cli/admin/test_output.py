"""Tables and text, as Java's text and as JSON."""

import pytest

from kerolox.cli.admin.output import Table, Text, json_name, key_value_lines

TABLE = Table("%-8s %4d %6.2f", ("#Broker Name", "#QID", "#InTPS(LOAD)"), [("a", 1, 2.5)])


def test_a_table_is_printed_as_javas_printf_does() -> None:
    assert TABLE.text() == "#Broker Name #QID #InTPS(LOAD)\na           1   2.50\n"


def test_headings_can_be_omitted_or_formatted_differently() -> None:
    assert Table("%04d", ("#Number",), [(7,)], has_heading=False).text() == "0007\n"
    assert Table("%-2s", ("#A",), [], heading="%6s").text() == "    #A\n"


def test_a_table_in_json_is_one_object_per_row() -> None:
    assert list(TABLE.data()) == [{"brokerName": "a", "qid": 1, "inTPSLOAD": 2.5}]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("#Broker Name", "brokerName"),
        ("#QID", "qid"),
        ("#ClientId", "clientId"),
        ("#offset", "offset"),
    ],
)
def test_headings_become_json_names(column: str, name: str) -> None:
    assert json_name(column) == name


def test_text_is_in_json_only_if_it_has_a_value() -> None:
    assert list(Text("done\n").data()) == []
    assert list(Text("done\n", {"done": True}).data()) == [{"done": True}]


def test_settings_are_printed_one_per_line() -> None:
    assert key_value_lines([("a", 1), ("b", "x")], "%-3s= %s") == "a  = 1\nb  = x\n"
