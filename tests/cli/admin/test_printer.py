"""Output formats of commands."""

import json
import sys

import pytest

from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.admin.printer import OutputFormat, Printer, output_format

TABLE = Table("%-8s %d %s", ("#Broker Name", "#QID", "#Rate"), [("broker[a]", 1, 2.0)])


def test_a_pipe_gets_javas_text(capsys: pytest.CaptureFixture[str]) -> None:
    target = Printer(OutputFormat.PLAIN)
    target.show(TABLE)
    target.show(Text("success"))
    target.end()

    assert capsys.readouterr().out == "#Broker Name #QID #Rate\nbroker[a] 1 2.0\nsuccess"


def test_a_terminal_gets_tables_and_a_final_line_break(capsys: pytest.CaptureFixture[str]) -> None:
    target = Printer(OutputFormat.TERMINAL)
    target.show(Text("before"))
    target.show(TABLE)
    target.show(Text("success"))
    target.end()

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

    Printer(OutputFormat.TERMINAL).show(table)

    printed = capsys.readouterr().out
    assert ("a" * 30 + "  " + "b" * 28 + "\n" in printed) == is_drawn
    assert (f"Name     {'a' * 30}\nAddress  {'b' * 28}\n\nName     padded\n" in printed) != is_drawn


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")])
def test_blocks_have_colours_unless_disabled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr("kerolox.cli.admin.printer.click.echo", lambda text, nl: print(text, end=""))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "4")
    monkeypatch.setenv(name, value)

    Printer(OutputFormat.TERMINAL).show(TABLE)

    assert ("\x1b" in capsys.readouterr().out) == (value == "xterm")


def test_a_cell_may_have_another_text_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("%s %s", ("#Name", "#Hour"), [("broker-a", Cell("498581.94", None, "-"))])

    Printer(OutputFormat.TERMINAL).show(table)

    assert "broker-a     -" in capsys.readouterr().out
    assert "498581.94" in table.text()


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    target = Printer(OutputFormat.JSON)
    target.show(TABLE)
    target.show(Text("only for people"))
    target.show(Text("for both", {"done": True}))
    target.end()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"brokerName": "broker[a]", "qid": 1, "rate": 2.0}, {"done": True}]


def test_the_format_depends_on_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert output_format(is_json=True) is OutputFormat.JSON
    assert output_format(is_json=False) is OutputFormat.PLAIN
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert output_format(is_json=False) is OutputFormat.TERMINAL


@pytest.mark.parametrize("columns", ["100", "4"])
@pytest.mark.parametrize("output", [OutputFormat.TERMINAL, OutputFormat.PLAIN])
def test_foreign_text_is_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, output: OutputFormat
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("kerolox.cli.admin.printer.click.echo", lambda text, nl: print(text, end=""))

    Printer(output).show(Text("\x1b]0;title\x07\n"))
    Printer(output).show(Table("%s", ("#Name",), [("\x1b]0;title\x07\nforged \u202e",)]))

    printed = capsys.readouterr().out
    assert printed.count(r"\x1b]0;title\x07") == 2
    assert r"\x07\x0aforged \u202e" in printed
