"""Output as JSON, and on narrow terminals."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kerolox.cli.admin import tool as module
from kerolox.cli.admin.output import Cell, CompositeCell, Table, parse_value
from kerolox.cli.admin.printer import OutputFormat
from tests.cli.admin.tools import ORDERS, SHOP, Tool

pytestmark = pytest.mark.usefixtures("consumed")

# Commands whose JSON has typed values; settings are text, as in their files, and not listed here.
TYPED = [
    ("clusterList",),
    ("clusterList", "-m"),
    ("brokerStatus", "-c", "DefaultCluster"),
    ("topicStatus", "-t", ORDERS),
    ("topicRoute", "-t", ORDERS),
    ("topicRoute", "-t", ORDERS, "-l"),
    ("topicList",),
    ("topicList", "-c"),
    ("consumerProgress",),
    ("consumerProgress", "-g", SHOP),
    ("consumerProgress", "-g", SHOP, "-s", "true"),
    ("brokerConsumeStats", "-b", "{broker}"),
    ("statsAll",),
    ("checkMsgSendRT", "-t", ORDERS, "-a", "2"),
    ("queryMsgByKey", "-t", ORDERS, "-k", "key1"),
    ("queryCq", "-t", ORDERS, "-q", "0", "-i", "0"),
    ("getConsumerConfig", "-g", SHOP),
    ("haStatus", "-c", "DefaultCluster"),
]


@pytest.mark.parametrize("arguments", TYPED, ids=" ".join)
def test_json_values_are_typed_and_not_padded(tool: Tool, arguments: tuple[str, ...]) -> None:
    found = tool.json(*(word.format(broker=tool.broker_addr) for word in arguments))

    assert found
    for text in _texts(found):
        assert text == text.strip()
        assert not re.fullmatch(r"-?\d+(\.\d+)?", text), found
        assert not re.match(r"\d{4}-\d\d-\d\d \d\d:", text), found
        assert text not in ("", "true", "false", "N/A"), found


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, (list, dict)):
        for item in part.values() if isinstance(part, dict) else part:
            yield from _texts(item)


def test_json_has_rates_and_loads_as_numbers(tool: Tool) -> None:
    (broker,) = tool.json("clusterList")

    assert broker["inTps"] >= 0
    assert (broker["sendQueueSize"], broker["sendQueueWaitMillis"], broker["pcWaitMillis"]) == (0, 0, 0)
    assert 0 <= broker["space"] <= 1


def test_json_has_times_in_milliseconds(tool: Tool) -> None:
    queue = tool.json("topicStatus", "-t", ORDERS)[0]

    assert queue["lastUpdated"] > 1_600_000_000_000


def test_cells_have_a_text_and_a_value() -> None:
    table = Table("%-6s|%s|%s", ("#A", "#B", "#C"), [(Cell("x", None), CompositeCell("1,2", {"d": 1, "e": 2}), 3)])

    assert table.text() == "#A    |#B|#C\nx     |1,2|3\n"
    assert list(table.data()) == [{"a": None, "d": 1, "e": 2, "c": 3}]


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-1", -1), ("0.50", 0.5), ("1.0E-4", 0.0001), ("true", True), (" a b ", "a b"), ("1 2", "1 2")],
)
def test_java_text_is_parsed_into_values(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("arguments", [it for it in TYPED if it[0] not in ("brokerStatus", "topicRoute")], ids=" ".join)
def test_a_narrow_terminal_breaks_no_name(
    tool: Tool, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(module, "output_format", lambda *, is_json: OutputFormat.TERMINAL)
    printed = tool(*(word.format(broker=tool.broker_addr) for word in arguments))

    for name in (ORDERS, "broker-a", tool.broker_addr, "DefaultCluster", SHOP):
        pieces = re.findall(re.escape(name[:4]) + r"\S*", printed)
        assert all(piece.startswith(name) or not name.startswith(piece) for piece in pieces), printed
    if arguments[0] not in ("queryCq", "haStatus", "getConsumerConfig"):
        assert max(map(len, printed.splitlines())) <= 80, printed
