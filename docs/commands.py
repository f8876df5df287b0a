"""docs/reference/commands.md: every command, and its flags."""

from collections.abc import Iterator
from pathlib import Path

import click

from kerolox.cli.admin.all import LISTED
from kerolox.cli.admin.declaring import Command, Flag
from kerolox.cli.app import main

PAGE = Path(__file__).parent / "reference" / "commands.md"

_HEAD = """# Commands

`kerolox COMMAND --help` says the same in the terminal. This page is made from the code by `python -m docs.generate`,
and a test holds it to that.

| command | what it does |
|---|---|
"""

_ADMIN = """
## kerolox admin, mqadmin

Every command of Java's mqadmin 4.9.8, with its names, flags and text, and those of 5.x that are marked so. Names are
read whatever their case; a long flag may be cut short or given with one dash, as in Java. All take `-n` (NameServers,
several parted by `;`; else those of `NAMESRV_ADDR`, else `127.0.0.1:9876`) and `-h`, and of ours:

| flag | what it does |
|---|---|
| `--json` | prints an object to a line, for each row, message or result; times are milliseconds, settings texts |
| `--watch SECONDS` | shows it again and again (commands marked _watch_) |
| `--yes` | does not ask whether it is meant (commands marked _asks_) |
| `--access-key`, `--secret-key` | who asks; else `KEROLOX_ACCESS_KEY` and `KEROLOX_SECRET_KEY`, or Java's `tools.yml` |
| `--tls` | encrypts connections, and verifies nobody |
| `--tls-ca`, `--tls-cert`, `--tls-key` | encrypt, trust servers that this CA has signed, and show a certificate |

In a pipe the text is Java's, column by column; on a terminal tables are drawn, or a block for each row where it is too
narrow for them. What fails is told in one sentence on stderr, and the command ends with 1; flags that cannot be read
are answered with Java's help. `kerolox admin` asks before it destroys something, and where nobody can answer it wants
`--yes`; `mqadmin` never asks, so that scripts written for Java's go on working.

"""


def page() -> str:
    """Returns the page as it should be."""
    return _HEAD + "".join(_ours()) + _ADMIN + "".join(map(_section, LISTED))


def _ours() -> Iterator[str]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        subcommands = getattr(command, "commands", {})
        if name == "admin" or not subcommands:
            yield f"| `kerolox {name}` | {_first(command)} |\n"
            continue
        for part, member in sorted(subcommands.items()):
            yield f"| `kerolox {name} {part}` | {_first(member)} |\n"


def _first(command: click.Command) -> str:
    return (command.help or "").split("\n\n")[0].replace("\n", " ")


def _section(command: Command) -> str:
    marks = [
        *([f"since {command.since}"] if command.since else []),
        *(["asks"] if command.warning else []),
        *(["watch"] if command.is_watched else []),
        *([f"also `{command.alias}`"] if command.alias else []),
    ]
    told = f" _({', '.join(marks)})_" if marks else ""
    flags = "".join(map(_flag, command.flags))
    return f"### {command.name}\n\n{command.description.rstrip('.!')}.{told}\n\n{flags}" + ("\n" if flags else "")


def _flag(flag: Flag) -> str:
    value = "" if flag.is_switch else " VALUE"
    need = " (needed)" if flag.is_required else " (one of these)" if flag.is_choice else ""
    need += f" (since {flag.since})" if flag.since else ""
    return f"- `-{flag.short}`, `--{flag.name}`{value}: {flag.help}{need}\n"
