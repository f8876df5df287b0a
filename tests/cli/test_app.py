"""The `kerolox` command: help texts, errors while printing, and shell completion."""

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
from kerolox.local.processes import our_command


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the words that call each command."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            yield from commands(member, *path, name)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_no_help_is_truncated_on_a_narrow_terminal(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    result = CliRunner().invoke(main, [*path, "--help"], prog_name="kerolox")

    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--version",), ("status",), ("doctor", "-n", "127.0.0.1:1")])
def test_a_full_disk_is_reported_in_one_line(tmp_path: Path, arguments: tuple[str, ...], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            our_command(*arguments),
            env=os.environ | {"KEROLOX_HOME": str(tmp_path), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (result.returncode, result.stderr) == (1, "Error: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "argument"),
    [("admin.tool:mqadmin", "help"), ("commands.broker:broker", "-p"), ("commands.namesrv:namesrv", "-p")],
)
def test_commands_with_java_names_report_a_full_disk_in_one_line(command: str, argument: str, unbuffered: str) -> None:
    module, name = command.split(":")
    code = f"from kerolox.cli.{module} import {name}; {name}(['{argument}'])"

    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (result.returncode, result.stderr) == (1, "Error: No space left on device\n")


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("bash", "complete -o nosort -F _kerolox_completion kerolox"),
        ("zsh", "#compdef kerolox"),
        ("fish", "complete --no-files --command kerolox"),
    ],
)
def test_completion_scripts_for_shells(shell: str, script: str) -> None:
    result = CliRunner().invoke(main, [], prog_name="kerolox", env={"_KEROLOX_COMPLETE": f"{shell}_source"})

    assert result.exit_code == 0
    assert script in result.stdout
    assert f"_KEROLOX_COMPLETE={shell}_complete" in result.stdout


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
def test_commands_and_flags_are_completed(shell: str, words: str, at: str, completed: str) -> None:
    environment = {"_KEROLOX_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": at}

    assert CliRunner().invoke(main, [], prog_name="kerolox", env=environment).stdout == completed


def test_mqadmin_is_completed() -> None:
    environment = {"_MQADMIN_COMPLETE": "bash_complete", "COMP_WORDS": "mqadmin updateTopicP", "COMP_CWORD": "1"}

    assert CliRunner().invoke(mqadmin, [], prog_name="mqadmin", env=environment).stdout == "plain,updateTopicPerm\n"
