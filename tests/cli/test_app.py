"""`kerolox` alone: its list of commands, and what shells complete."""

import pytest
from click.testing import CliRunner

from kerolox.cli.admin.tool import mqadmin
from kerolox.cli.app import main


def test_no_description_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    listed = CliRunner().invoke(main, ["--help"], prog_name="kerolox").stdout

    assert "..." not in listed.partition("Commands:")[2]
    assert all(len(line) <= 80 for line in listed.splitlines())


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
