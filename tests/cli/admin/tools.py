"""Runs `mqadmin` and `kerolox admin` in this process against a cluster."""

import json
from typing import Any

from click.testing import CliRunner, Result

from kerolox.cli.admin.tool import admin, mqadmin

ORDERS, SHOP = "orders", "shop"
COUNT = 6


class Tool:
    """`tool("topicStatus", "-t", "orders")` returns the output of a command, which must succeed."""

    def __init__(self, namesrv_addr: str, broker_addr: str) -> None:
        self.namesrv_addr = namesrv_addr
        self.broker_addr = broker_addr

    def __call__(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return result.stdout

    def json(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def fails(self, *arguments: str) -> str:
        """Return the one line of error with which a command fails."""
        result = self.run(*arguments)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("Error: "), result.output
        assert result.stderr.count("\n") == 1, result.output
        return result.stderr.removeprefix("Error: ").rstrip("\n")

    def run(self, *arguments: str, is_java: bool = True, typed: str | None = None) -> Result:
        command = mqadmin if is_java else admin
        result = CliRunner().invoke(command, [*arguments, "-n", self.namesrv_addr], input=typed)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


def rows(printed: str) -> list[list[str]]:
    """Return the words of each line after the headings."""
    return [line.split() for line in printed.splitlines()[1:]]
