"""Commands that send messages."""

from typing import Any

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.cli.admin.messages import send
from tests.cli.admin.tools import ORDERS, Tool, rows

pytestmark = pytest.mark.usefixtures("sent")


def test_a_message_is_sent_to_a_queue(tool: Tool, client: AdminClient) -> None:
    printed = tool("sendMessage", "-t", ORDERS, "-p", "by hand", "-k", "hand", "-c", "red", "-b", "broker-a", "-i", "1")

    (row,) = rows(printed)
    assert row[:3] == ["broker-a", "1", "SEND_OK"]
    (found,) = client.messages.by_key(ORDERS, "hand")
    assert (found.message_id, found.body, found.tag) == (row[3], b"by hand", "red")


def test_a_message_may_be_traced(tool: Tool, client: AdminClient) -> None:
    (row,) = rows(tool("sendMessage", "-t", ORDERS, "-p", "traced", "-m", "true"))

    assert [type(record).__name__ for record in client.traces.of_message(row[3])] == ["Pub"]


def test_a_queue_id_needs_a_broker_name(tool: Tool) -> None:
    assert "Broker name must be set" in tool.run("sendMessage", "-t", ORDERS, "-p", "x", "-i", "1").stderr


def test_sending_to_an_invalid_topic_is_reported(tool: Tool) -> None:
    assert "Error: " in tool.run("sendMessage", "-t", "no good", "-p", "x").stderr


def test_messages_are_sent_to_a_broker_and_timed(tool: Tool) -> None:
    lines = tool("sendMsgStatus", "-b", "broker-a", "-s", "16", "-c", "2").splitlines()

    assert len(lines) == 2
    assert all(line.startswith("rt=") and "SendResult [sendStatus=SEND_OK, " in line for line in lines)


def test_messages_are_sent_to_each_queue_in_turn_and_timed(tool: Tool) -> None:
    printed = tool("checkMsgSendRT", "-t", ORDERS, "-a", "3", "-s", "16")

    assert [row[:3] for row in rows(printed)[:3]] == [["broker-a", str(number), "true"] for number in (0, 1, 0)]
    assert printed.splitlines()[-1].startswith("Avg RT: ")


@pytest.mark.parametrize("size", ["0", "-1", "99999999999999999999"])
def test_an_invalid_message_size_is_refused(tool: Tool, size: str) -> None:
    for command in (("checkMsgSendRT", "-t", ORDERS), ("sendMsgStatus", "-b", "broker-a"), ("clusterRT",)):
        assert f"ize {size}: expected 1 to 4194304 bytes" in tool.run(*command, "-s", size).stderr


def test_a_cluster_is_measured_until_interrupted(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop(seconds: float) -> Any:
        raise OSError(f"asked to wait for {seconds} s")

    monkeypatch.setattr(send, "pause", stop)

    result = tool.run("clusterRT", "-a", "2", "-s", "16", "-i", "7")
    logged = tool.run("clusterRT", "-a", "2", "-p", "true", "-m", "cellar")

    assert result.stdout.splitlines()[1].split()[:2] == ["DefaultCluster", "broker-a"]
    assert result.stdout.splitlines()[1].split()[3:] == ["2", "0"]
    assert "asked to wait for 7 s" in result.stderr
    assert "|cellar|DefaultCluster|broker-a|" in logged.stdout
