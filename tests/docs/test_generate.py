"""The page of requests says what the code does."""

from types import ModuleType

import pytest

from docs import commands, configuration, generate, metrics
from kerolox.broker import Broker, Settings
from kerolox.broker.refusals import REFUSED, UNSUPPORTED
from kerolox.cli.admin.all import LISTED
from kerolox.codes import RequestCode
from kerolox.namesrv import NamesrvConfig


def test_the_page_of_requests_is_what_the_code_makes() -> None:
    assert generate.PAGE.read_text() == generate.page(), "run `python -m docs.generate`"


def test_the_page_of_commands_is_what_the_code_makes() -> None:
    assert commands.PAGE.read_text() == commands.page(), "run `python -m docs.generate`"


@pytest.mark.parametrize("part", [configuration, metrics], ids=["configuration", "metrics"])
def test_the_pages_of_settings_and_metrics_are_what_the_code_makes(part: ModuleType) -> None:
    assert part.PAGE.read_text() == part.page(), "run `python -m docs.generate`"


def test_every_setting_has_a_row() -> None:
    page = configuration.page()

    for key in {*Settings().keys(), *NamesrvConfig.keys()}:
        assert f"\n| `{key}` | " in page


def test_every_command_has_a_section() -> None:
    page = commands.page()

    assert all(f"\n### {command.name}\n" in page for command in LISTED)
    assert "| `kerolox store check` |" in page


def test_every_code_has_a_row() -> None:
    rows = [line.split(" | ") for line in generate.page().splitlines() if line.startswith("| ") and "|---" not in line]

    assert [int(row[0].removeprefix("| ")) for row in rows[1:]] == [int(code) for code in RequestCode]
    assert {len(row) for row in rows} == {5}


def test_what_is_said_not_to_be_answered_is_not() -> None:
    answered = Broker(Settings()).routes.requests

    assert [code.name for code in UNSUPPORTED if code in answered] == []
    assert [code.name for code in REFUSED if code not in answered] == []


def test_what_is_not_answered_has_a_reason() -> None:
    assert [line for line in generate.page().splitlines() if line.endswith("| code 3 |")] == []
