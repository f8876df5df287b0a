"""Generated pages are up to date and complete."""

from types import ModuleType

import pytest

from docs import api, commands, configuration, generate, metrics
from kerolox import admin, client
from kerolox.broker import Broker, Settings
from kerolox.broker.unsupported import REFUSED, UNSUPPORTED
from kerolox.cli.admin.command_table import ALL_COMMANDS
from kerolox.codes import RequestCode
from kerolox.controller import ControllerConfig
from kerolox.namesrv import NamesrvConfig


def test_the_page_of_requests_is_up_to_date() -> None:
    assert generate.PAGE.read_text() == generate.page(), "run `python -m docs.generate`"


def test_the_page_of_commands_is_up_to_date() -> None:
    assert commands.PAGE.read_text() == commands.page(), "run `python -m docs.generate`"


@pytest.mark.parametrize("part", [api, configuration, metrics], ids=["api", "configuration", "metrics"])
def test_the_pages_of_api_settings_and_metrics_are_up_to_date(part: ModuleType) -> None:
    assert part.PAGE.read_text() == part.page(), "run `python -m docs.generate`"


def test_every_setting_has_a_row() -> None:
    page = configuration.page()

    for key in {*Settings().keys(), *NamesrvConfig.keys(), *ControllerConfig.keys()}:
        assert f"\n| `{key}` | " in page


def test_every_command_has_a_section() -> None:
    page = commands.page()

    assert all(f"\n### {command.name}\n" in page for command in ALL_COMMANDS)
    assert "| `kerolox store check` |" in page


def test_every_code_has_a_row() -> None:
    rows = [line.split(" | ") for line in generate.page().splitlines() if line.startswith("| ") and "|---" not in line]

    assert [int(row[0].removeprefix("| ")) for row in rows[1:]] == [int(code) for code in RequestCode]
    assert {len(row) for row in rows} == {5}


def test_requests_listed_as_unsupported_have_no_handler() -> None:
    answered = Broker(Settings()).router.requests

    assert [code.name for code in UNSUPPORTED if code in answered] == []
    assert [code.name for code in REFUSED if code not in answered] == []


def test_every_unsupported_request_has_a_reason() -> None:
    assert [line for line in generate.page().splitlines() if line.endswith("| code 3 |")] == []


def test_every_public_class_of_clients_and_admin_has_a_section() -> None:
    page = api.page()

    assert [name for name in (*client.__all__, *admin.__all__) if f"\n### {name}\n" not in page] == ["strategies"]
    assert "- `async create(topic: str, " in page
    assert "- `send_timeout_seconds` = `3.0`: " in page
