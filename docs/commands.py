"""Generates docs/reference/commands.md: every command and its options."""

from collections.abc import Iterator
from pathlib import Path

import click

from kerolox.cli.admin.command import Command, Flag
from kerolox.cli.admin.command_table import ALL_COMMANDS
from kerolox.cli.app import main

PAGE = Path(__file__).parent / "reference" / "commands.md"

_HEAD = """# Commands

`kerolox COMMAND --help` prints the same in a terminal. `python -m docs.generate` generates this page from the code,
and a test compares them.

| command | what it does |
|---|---|
"""

_ADMIN = """
## kerolox admin, mqadmin

All commands of Java's mqadmin 4.9.8, with the same names, flags and output, and the commands of 5.x that are marked.
Command names are case-insensitive; a long flag may be abbreviated or given with one dash, as in Java. All commands
take `-n` (NameServers, separated by `;`; default `NAMESRV_ADDR`, else `127.0.0.1:9876`) and `-h`. These flags are
additions:

| flag | what it does |
|---|---|
| `--json` | prints one object per line, for each row, message or result; times are milliseconds, settings are strings |
| `--watch SECONDS` | repeats the command (commands marked _watch_) |
| `--yes` | skips the confirmation (commands marked _asks_) |
| `--access-key`, `--secret-key` | account; else `KEROLOX_ACCESS_KEY`, `KEROLOX_SECRET_KEY`, or Java's `tools.yml` |
| `--tls` | encrypts connections without verification |
| `--tls-ca`, `--tls-cert`, `--tls-key` | encrypts connections, verifies servers with this CA, presents a certificate |

In a pipe the output equals Java's, column by column; on a terminal it is a table, or one block per row if the terminal
is too narrow. A command that fails prints one sentence on stderr and exits with 1; for invalid flags it prints Java's
help. `kerolox admin` asks for confirmation before destructive changes, and requires `--yes` if there is no terminal;
`mqadmin` never asks, so that scripts written for Java's tool keep working.

"""


def page() -> str:
    """Return the text of the generated page."""
    return _HEAD + "".join(_kerolox_rows()) + _ADMIN + "".join(map(_section, ALL_COMMANDS))


def _kerolox_rows() -> Iterator[str]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        subcommands = getattr(command, "commands", {})
        if name == "admin" or not subcommands:
            yield f"| `kerolox {name}` | {_first_paragraph(command)} |\n"
            continue
        for part, member in sorted(subcommands.items()):
            yield f"| `kerolox {name} {part}` | {_first_paragraph(member)} |\n"


def _first_paragraph(command: click.Command) -> str:
    return (command.help or "").split("\n\n")[0].replace("\n", " ")


def _section(command: Command) -> str:
    marks = [
        *([f"since {command.since}"] if command.since else []),
        *(["asks"] if command.warning else []),
        *(["watch"] if command.is_watchable else []),
        *([f"also `{command.alias}`"] if command.alias else []),
    ]
    suffix = f" _({', '.join(marks)})_" if marks else ""
    flags = "".join(map(_flag, command.flags))
    return f"### {command.name}\n\n{command.description.rstrip('.!')}.{suffix}\n\n{flags}" + ("\n" if flags else "")


def _flag(flag: Flag) -> str:
    value = "" if flag.is_switch else " VALUE"
    need = " (required)" if flag.is_required else " (one of these)" if flag.is_choice else ""
    need += f" (since {flag.since})" if flag.since else ""
    return f"- `-{flag.short}`, `--{flag.name}`{value}: {flag.help}{need}\n"
