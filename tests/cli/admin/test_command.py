"""Declared commands, and the values of their flags."""

import pytest

from kerolox.admin import AdminClient
from kerolox.cli.admin.command import Call, Flag
from kerolox.cli.admin.command_table import ALL_COMMANDS
from kerolox.cli.admin.errors import InvalidUsage

CALL = Call(
    AdminClient(namesrv_addr="127.0.0.1:9876"),
    {"topic": " orders ", "count": "7", "is": "TRUE", "list": True, "when": "5", "none": None, "odd": "x"},
)


def test_values_are_read_as_java_reads_them() -> None:
    assert (CALL["topic"], CALL.get("none"), CALL.has("list"), CALL.has("none")) == ("orders", None, True, False)
    assert (CALL.number("count"), CALL.number("none", 3)) == (7, 3)
    assert (CALL.boolean("is"), CALL.boolean("count"), CALL.boolean("none", True)) == (True, False, True)
    assert (CALL.millis("when"), CALL.millis("none")) == (5, None)


def test_a_value_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidUsage, match="--odd 'x' is not a number"):
        CALL.number("odd")


def test_flag_names_with_blanks_get_dashes() -> None:
    flag = Flag("p", "print msg", "")

    assert (flag.name, flag.parameter) == ("print-msg", "print_msg")
    assert Flag("c", "charsetName ", "").name == "charsetName"


def test_flags_of_a_command_are_unique() -> None:
    for command in ALL_COMMANDS:
        assert len({flag.short for flag in command.flags}) == len(command.flags), command.name
        assert len({flag.name for flag in command.flags}) == len(command.flags), command.name


def test_every_warning_can_be_formatted_with_required_flags() -> None:
    for command in ALL_COMMANDS:
        if command.warning:
            assert command.warning.format_map({flag.name: "x" for flag in command.flags if flag.is_required})
