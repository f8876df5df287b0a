"""Commands shown in the documentation exist, with existing options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kerolox.cli.admin.tool import mqadmin
from kerolox.cli.app import main
from kerolox.cli.commands.broker import broker
from kerolox.cli.commands.controller import controller
from kerolox.cli.commands.namesrv import namesrv

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Command] = {
    "kerolox": main,
    "mqadmin": mqadmin,
    "mqbroker": broker,
    "mqcontroller": controller,
    "mqnamesrv": namesrv,
}
_ENDS = re.compile(r"^(\||>|<|2>&1|&&|;|&)$")


def shown() -> Iterator[tuple[str, str]]:
    """Yield (page, command) for each command indented by four spaces."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        # A command may continue on the next line.
        for line in re.sub(r"\\\n +", "", page.read_text()).splitlines():
            found = re.match(r"^    (?:echo .* \| )?((?:kerolox|mqadmin|mqbroker|mqcontroller|mqnamesrv) .*)$", line)
            # A line with brackets is a synopsis, not a command.
            if found is not None and not re.search(r"[\[\]{}]|\.\.\.|FILE|ADDRESS", found[1]):
                yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), list(shown()))
def test_a_shown_command_parses(page: str, line: str) -> None:
    words: list[str] = []
    for word in shlex.split(line, comments=True):
        if _ENDS.match(word):
            break
        words.append(word)
    command, arguments = PROGRAMS[words[0]], words[1:]
    context = click.Context(command, info_name=words[0])
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        found = command.get_command(context, arguments[0])
        assert found is not None, f"{page}: {line}"
        context = click.Context(found, parent=context, info_name=arguments[0])
        command, arguments = found, arguments[1:]

    assert _complaint(command, arguments, context.parent) is None, f"{page}: {line}"


def _complaint(command: click.Command, arguments: list[str], parent: click.Context | None) -> str | None:
    """Return the usage error of a command line, or None; missing files are no error here."""
    try:
        command.make_context(command.name, arguments, parent=parent)
    except click.exceptions.Exit:
        # The command line has --help.
        return None
    except click.UsageError as error:
        return None if "does not exist" in error.message else error.message
    return None


def test_commands_are_found_where_they_are_shown() -> None:
    assert len(list(shown())) > 40
