"""Commands that read queues."""

import pytest

from tests.cli.admin.tools import ORDERS, Tool

pytestmark = pytest.mark.usefixtures("sent")


def test_all_messages_of_a_topic_are_printed(tool: Tool, sent: list[str]) -> None:
    lines = tool("printMsg", "-t", ORDERS).splitlines()

    found = [line for line in lines if line.startswith("MSGID: ")]
    assert sorted(line.split()[1] for line in found) == sorted(sent)
    assert found[0].startswith(f"MSGID: {found[0].split()[1]} MessageExt [brokerName=broker-a, queueId=")
    assert all(line.endswith(f"BODY: body {sent.index(line.split()[1])}") for line in found)
    assert lines.count("-" * 56) == 2
    assert any(line.startswith("minOffset=0, maxOffset=3, MessageQueue [topic=orders, ") for line in lines)


def test_messages_are_printed_by_tag_and_without_bodies(tool: Tool) -> None:
    odd = tool("printMsg", "-t", ORDERS, "-s", "odd", "-d", "false")
    none = tool("printMsg", "-t", ORDERS, "-s", "purple")

    assert odd.count("BODY: NOT PRINT BODY") == 3
    assert none.count("no matched msg. status=NO_MATCHED_MSG, offset=3") == 2


def test_messages_are_printed_from_a_time_on(tool: Tool) -> None:
    assert tool("printMsg", "-t", ORDERS, "-b", "4102444800000").count("MSGID") == 0
    assert tool("printMsg", "-t", ORDERS, "-b", "0").count("MSGID") == 6


def test_messages_are_printed_as_json_one_per_line(tool: Tool) -> None:
    found = tool.json("printMsg", "-t", ORDERS)

    assert sorted(message["body"] for message in found) == [f"body {number}" for number in range(6)]


def test_one_queue_is_printed_or_its_tags_are_counted(tool: Tool) -> None:
    queue = ("-t", ORDERS, "-a", "broker-a", "-i", "0")

    assert tool("printMsgByQueue", *queue, "-p", "true", "-d", "true").count("BODY: body ") == 3
    assert tool("printMsgByQueue", *queue, "-f", "true") == "Tag: even                           Count: 3\n"
    assert tool("printMsgByQueue", *queue) == ""


def test_an_unknown_charset_is_refused(tool: Tool) -> None:
    assert "is not a known charset" in tool.run("printMsg", "-t", ORDERS, "-c", "martian").stderr


def test_messages_are_read_from_an_offset_up_to_a_count(tool: Tool) -> None:
    queue = ("-t", ORDERS, "-b", "broker-a", "-i", "0")

    lines = tool("consumeMessage", *queue, "-o", "1", "-c", "1").splitlines()
    beyond = tool("consumeMessage", *queue, "-o", "99")

    assert lines[:2] == ["The oldler 1 message will be provided", "Consume ok"]
    assert lines[2].endswith("BODY: body 2")
    assert len(lines) == 3
    assert beyond == "MessageQueue [topic=orders, brokerName=broker-a, queueId=0] no matched msg, offset=99\n"


def test_messages_are_read_from_all_queues_up_to_a_count(tool: Tool) -> None:
    assert tool("consumeMessage", "-t", ORDERS).count("MSGID: ") == 6
    assert tool("consumeMessage", "-t", ORDERS, "-c", "2").count("MSGID: ") == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("-c", "0"), "Please input a positive messageNumber!"),
        (("-c", "many"), "is not a number"),
        (("-i", "0"), "Please set the brokerName before queueId!"),
        (("-o", "0"), "Please set queueId before offset!"),
        (("-s", "99999999999999"), "Please set the beginTimestamp before now!"),
        (("-e", "99999999999999"), "Please set the endTimestamp before now!"),
        (("-s", "2", "-e", "1"), "less than or equal"),
    ],
)
def test_invalid_arguments_are_reported(tool: Tool, arguments: tuple[str, ...], error: str) -> None:
    result = tool.run("consumeMessage", "-t", ORDERS, *arguments)

    assert result.exit_code == 1
    assert error in result.stderr
