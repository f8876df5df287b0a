"""Every command that the documentation shows is one, with flags that it has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kerolox.cli.admin.tool import mqadmin
from kerolox.cli.app import main
from kerolox.cli.broker import broker
from kerolox.cli.namesrv import namesrv

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Command] = {"kerolox": main, "mqadmin": mqadmin, "mqbroker": broker, "mqnamesrv": namesrv}
_ENDS = re.compile(r"^(\||>|<|2>&1|&&|;|&)$")


def shown() -> Iterator[tuple[str, str]]:
    """Yields the page and the command, for each that is set off by four blanks."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        # A command may go on in the next line.
        for line in re.sub(r"\\\n +", "", page.read_text()).splitlines():
            found = re.match(r"^    (?:echo .* \| )?((?:kerolox|mqadmin|mqbroker|mqnamesrv) .*)$", line)
            # A line with brackets says what may be left out; it is not one to type.
            if found is not None and not re.search(r"[\[\]{}]|\.\.\.|FILE|ADDRESS", found[1]):
                yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), list(shown()))
def test_a_command_that_is_shown_is_understood(page: str, line: str) -> None:
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
    """Returns what a command has against its arguments; that files are not there is none, as they are only shown."""
    try:
        command.make_context(command.name, arguments, parent=parent)
    except click.exceptions.Exit:
        # It was asked for its help.
        return None
    except click.UsageError as error:
        return None if "does not exist" in error.message else error.message
    return None


def test_commands_are_found_where_they_are_shown() -> None:
    assert len(list(shown())) > 40
