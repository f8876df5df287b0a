"""Tables and text, for people and for machines."""

import pytest

from kerolox.cli.admin.parts import Table, Text, member, settings

TABLE = Table("%-8s %4d %6.2f", ("#Broker Name", "#QID", "#InTPS(LOAD)"), [("a", 1, 2.5)])


def test_a_table_is_printed_as_javas_printf_does() -> None:
    assert TABLE.text() == "#Broker Name #QID #InTPS(LOAD)\na           1   2.50\n"


def test_a_table_may_have_no_headings_or_others() -> None:
    assert Table("%04d", ("#Number",), [(7,)], has_heading=False).text() == "0007\n"
    assert Table("%-2s", ("#A",), [], heading="%6s").text() == "    #A\n"


def test_a_table_is_an_object_for_each_row() -> None:
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
def test_headings_become_names(column: str, name: str) -> None:
    assert member(column) == name


def test_text_says_something_to_machines_if_it_has_a_value() -> None:
    assert list(Text("done\n").data()) == []
    assert list(Text("done\n", {"done": True}).data()) == [{"done": True}]


def test_settings_have_a_line_each() -> None:
    assert settings([("a", 1), ("b", "x")], "%-3s= %s") == "a  = 1\nb  = x\n"
