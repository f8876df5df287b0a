"""How commands are declared and called."""

import pytest

from kerolox.admin import AdminClient
from kerolox.cli.admin.all import LISTED
from kerolox.cli.admin.declaring import Call, Flag
from kerolox.cli.admin.errors import Misused

CALL = Call(
    AdminClient(namesrv_addr="127.0.0.1:9876"),
    {"topic": " orders ", "count": "7", "is": "TRUE", "list": True, "when": "5", "none": None, "odd": "x"},
)


def test_values_are_read_as_java_reads_them() -> None:
    assert (CALL["topic"], CALL.get("none"), CALL.has("list"), CALL.has("none")) == ("orders", None, True, False)
    assert (CALL.number("count"), CALL.number("none", 3)) == (7, 3)
    assert (CALL.truth("is"), CALL.truth("count"), CALL.truth("none", True)) == (True, False, True)
    assert (CALL.millis("when"), CALL.millis("none")) == (5, None)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(Misused, match="--odd 'x' is no number"):
        CALL.number("odd")


def test_names_with_blanks_can_be_typed() -> None:
    flag = Flag("p", "print msg", "")

    assert (flag.name, flag.parameter) == ("print-msg", "print_msg")
    assert Flag("c", "charsetName ", "").name == "charsetName"


def test_no_command_has_two_flags_of_one_letter_or_name() -> None:
    for command in LISTED:
        assert len({flag.short for flag in command.flags}) == len(command.flags), command.name
        assert len({flag.name for flag in command.flags}) == len(command.flags), command.name


def test_every_warning_can_be_filled_in() -> None:
    for command in LISTED:
        if command.warning:
            assert command.warning.format_map({flag.name: "x" for flag in command.flags if flag.is_required})
