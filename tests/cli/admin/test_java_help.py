"""Help texts equal Java's letter for letter."""

from dataclasses import replace

import pytest

from kerolox.cli.admin.command import Command, Flag
from kerolox.cli.admin.command_table import ALL_COMMANDS, BY_NAME
from kerolox.cli.admin.java_help import WIDTH, command_help, commands_help
from tests.golden.record_mqadmin_help import load

GOLDEN_LIST, GOLDEN_HELPS = load()


def test_the_commands_of_4_9_8_are_listed_as_java_lists_them() -> None:
    assert commands_help(command for command in ALL_COMMANDS if command.since is None) == GOLDEN_LIST
    assert len(GOLDEN_HELPS) > 50


@pytest.mark.parametrize("name", GOLDEN_HELPS)
def test_the_help_of_a_command_equals_javas(name: str) -> None:
    command = BY_NAME[name.lower()]
    as_in_4_9_8 = replace(command, flags=tuple(flag for flag in command.flags if flag.since is None))

    assert command_help(as_in_4_9_8) == GOLDEN_HELPS[name]


def test_long_lines_are_wrapped() -> None:
    flag = Flag("x", "extra", " ".join(["word"] * 60))

    lines = command_help(Command("long", "", (flag,), run=None)).splitlines()  # type: ignore[arg-type]

    assert max(map(len, lines)) <= WIDTH
    assert lines[-1].startswith(" " * 20)
