"""`kerolox` alone: its list of commands, and what shells complete."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kerolox.cli.admin.tool import mqadmin
from kerolox.cli.app import main
from kerolox.local.children import our_command


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """Yields every command by the words that call it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            yield from commands(member, *path, name)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_no_help_is_cut_on_a_narrow_terminal(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    asked = CliRunner().invoke(main, [*path, "--help"], prog_name="kerolox")

    assert asked.exit_code == 0
    assert "…" not in asked.stdout
    assert "..." not in asked.stdout.partition("Commands:")[2]
    assert [line for line in asked.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("arguments", [("--version",), ("status",), ("doctor", "-n", "127.0.0.1:1")])
def test_what_cannot_be_printed_is_told_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            our_command(*arguments),
            env=os.environ | {"KEROLOX_HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (ended.returncode, ended.stderr) == (1, "Error: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize(
    ("command", "argument"), [("admin.tool:mqadmin", "help"), ("broker:broker", "-p"), ("namesrv:namesrv", "-p")]
)
def test_commands_with_names_of_the_original_tell_it_too(command: str, argument: str) -> None:
    module, name = command.split(":")
    code = f"from kerolox.cli.{module} import {name}; {name}(['{argument}'])"

    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (ended.returncode, ended.stderr) == (1, "Error: No space left on device\n")


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("bash", "complete -o nosort -F _kerolox_completion kerolox"),
        ("zsh", "#compdef kerolox"),
        ("fish", "complete --no-files --command kerolox"),
    ],
)
def test_shells_are_given_a_script(shell: str, script: str) -> None:
    given = CliRunner().invoke(main, [], prog_name="kerolox", env={"_KEROLOX_COMPLETE": f"{shell}_source"})

    assert given.exit_code == 0
    assert script in given.stdout
    assert f"_KEROLOX_COMPLETE={shell}_complete" in given.stdout


@pytest.mark.parametrize(
    ("shell", "words", "at", "completed"),
    [
        ("bash", "kerolox do", "1", "plain,doctor\nplain,down\n"),
        ("bash", "kerolox admin topicSt", "2", "plain,topicStatus\n"),
        ("bash", "kerolox admin topicStatus --tls-", "3", "plain,--tls-ca\nplain,--tls-cert\nplain,--tls-key\n"),
        ("zsh", "kerolox dow", "1", "plain\ndown\nStop the cluster that `kerolox up` started.\n"),
        ("fish", "kerolox", "dow", "plain,down\tStop the cluster that `kerolox up` started.\n"),
    ],
)
def test_shells_complete_commands_and_flags(shell: str, words: str, at: str, completed: str) -> None:
    environment = {"_KEROLOX_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": at}

    assert CliRunner().invoke(main, [], prog_name="kerolox", env=environment).stdout == completed


def test_mqadmin_is_completed_too() -> None:
    environment = {"_MQADMIN_COMPLETE": "bash_complete", "COMP_WORDS": "mqadmin updateTopicP", "COMP_CWORD": "1"}

    assert CliRunner().invoke(mqadmin, [], prog_name="mqadmin", env=environment).stdout == "plain,updateTopicPerm\n"
