"""Rates and counts of topics and groups."""

import pytest

from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows


@pytest.mark.usefixtures("consumed")
def test_topics_are_listed_with_their_groups(tool: Tool) -> None:
    found = rows(tool("statsAll", "-t", ORDERS))

    assert [row[:3] for row in found] == [[ORDERS, SHOP, "0"]]
    assert tool.json("statsAll", "-t", ORDERS)[0]["consumerGroup"] == SHOP


def test_topics_without_consumers_are_listed(tool: Tool) -> None:
    found = {row[0]: row for row in rows(tool("statsAll"))}

    assert found["TBW102"] == ["TBW102", "0", "0.00", "0", "NO_CONSUMER"]
    assert "TBW102" not in {row[0] for row in rows(tool("statsAll", "-a"))}
