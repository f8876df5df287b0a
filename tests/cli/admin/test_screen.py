"""What is printed where."""

import json

import pytest

from kerolox.cli.admin import screen
from kerolox.cli.admin.parts import Cell, Table, Text
from kerolox.cli.admin.screen import Form, Screen, form

TABLE = Table("%-8s %d %s", ("#Broker Name", "#QID", "#Rate"), [("broker[a]", 1, 2.0)])


def test_a_pipe_gets_javas_text(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Screen(Form.PLAIN)
    shown.show(TABLE)
    shown.show(Text("success"))
    shown.end()

    assert capsys.readouterr().out == "#Broker Name #QID #Rate\nbroker[a] 1 2.0\nsuccess"


def test_a_terminal_gets_tables_and_a_last_line_that_ends(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Screen(Form.TERMINAL)
    shown.show(Text("before"))
    shown.show(TABLE)
    shown.show(Text("success"))
    shown.end()

    printed = capsys.readouterr().out
    assert printed.startswith("before\n")
    assert "Broker Name" in printed
    assert "#Broker" not in printed
    assert "broker[a]" in printed
    assert "2.00" in printed
    assert printed.endswith("success\n")


@pytest.mark.parametrize(("spare", "is_drawn"), [(0, True), (-1, False)])
def test_a_row_that_does_not_fit_becomes_a_block(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, spare: int, is_drawn: bool
) -> None:
    table = Table("%s %s", ("#Name", "#Address"), [("a" * 30, "b" * 28), ("  padded ", 1)])
    monkeypatch.setenv("COLUMNS", str(30 + 2 + 28 + spare))

    Screen(Form.TERMINAL).show(table)

    printed = capsys.readouterr().out
    assert ("a" * 30 + "  " + "b" * 28 + "\n" in printed) == is_drawn
    assert (f"Name     {'a' * 30}\nAddress  {'b' * 28}\n\nName     padded\n" in printed) != is_drawn


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")])
def test_blocks_have_colours_only_where_they_are_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr("kerolox.cli.admin.screen.click.echo", lambda text, nl: print(text, end=""))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "4")
    monkeypatch.setenv(name, value)

    Screen(Form.TERMINAL).show(TABLE)

    assert ("\x1b" in capsys.readouterr().out) == (value == "xterm")


def test_a_terminal_may_be_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("%s %s", ("#Name", "#Hour"), [("broker-a", Cell("498581.94", None, "-"))])

    Screen(Form.TERMINAL).show(table)

    assert "broker-a     -" in capsys.readouterr().out
    assert "498581.94" in table.text()


def test_machines_get_an_object_to_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Screen(Form.JSON)
    shown.show(TABLE)
    shown.show(Text("only for people"))
    shown.show(Text("for both", {"done": True}))
    shown.end()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"brokerName": "broker[a]", "qid": 1, "rate": 2.0}, {"done": True}]


def test_the_form_is_chosen_by_what_the_output_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert form(is_json=True) is Form.JSON
    assert form(is_json=False) is Form.PLAIN
    monkeypatch.setattr(screen.sys.stdout, "isatty", lambda: True, raising=False)
    assert form(is_json=False) is Form.TERMINAL


@pytest.mark.parametrize("columns", ["100", "4"])
def test_what_others_have_written_does_not_move_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("kerolox.cli.admin.screen.click.echo", lambda text, nl: print(text, end=""))
    written = "\x1b]0;title\x07"
    table = Table("%s", ("#Name",), [(written,)])

    for part in (Text(written + "\n"), table):
        Screen(Form.TERMINAL).show(part)
    told = capsys.readouterr().out
    Screen(Form.PLAIN).show(table)

    assert told.count(r"\x1b]0;title\x07") == 2
    assert "\x1b]" not in told
    assert written in capsys.readouterr().out
