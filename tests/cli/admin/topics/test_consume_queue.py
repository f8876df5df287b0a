"""Entries of a consume queue."""

import pytest

from tests.cli.admin.tools import ORDERS, Tool

pytestmark = pytest.mark.usefixtures("sent")


def test_entries_are_printed_as_in_java(tool: Tool) -> None:
    printed = tool("queryCq", "-t", ORDERS, "-q", "0", "-i", "1", "-c", "1", "-b", tool.broker_addr)

    lines = printed.splitlines()
    assert lines[:4] == ["Queue data: ", "max: 3, min: 0", "=" * 38, "idx: 1"]
    assert lines[4].startswith("ConsumeQueueData{physicOffset=")
    assert lines[4].endswith("extendDataJson='null', bitMap='null', eval=false, msg='null'}")
    assert tool("queryCq", "-t", ORDERS, "-q", "0", "-i", "1", "-c", "1") == printed


def test_entries_are_printed_as_json(tool: Tool) -> None:
    ends, first, *_ = tool.json("queryCq", "-t", ORDERS, "-q", "0", "-i", "0")

    assert ends == {"max": 3, "min": 0}
    assert first["index"] == 0


def test_an_unknown_queue_is_an_error(tool: Tool) -> None:
    assert "9@orders" in tool.fails("queryCq", "-t", ORDERS, "-q", "9", "-i", "0", "-b", tool.broker_addr)
