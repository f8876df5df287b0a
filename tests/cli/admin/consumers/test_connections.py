"""Connected clients, and the running info of consumers."""

import dataclasses
from pathlib import Path

import pytest

from kerolox.client.sync import Consumed, Message, Options, Producer, PushConsumer
from tests.cli.admin.tools import ORDERS, SHOP, Tool


def test_the_members_of_a_group_are_printed_with_subscriptions(tool: Tool, consumer: PushConsumer) -> None:
    printed = tool("consumerConnection", "-g", SHOP)

    lines = printed.splitlines()
    client_id, address, language, version = lines[1].split()
    assert (client_id, language, version) == (consumer.options.client_id, "PYTHON", "V5_5_0")
    assert address.startswith("127.0.0.1:")
    assert "\nBelow is subscription:\n" in printed
    assert f"{ORDERS:<20} *" in lines
    assert lines[-3:] == [
        "ConsumeType: CONSUME_PASSIVELY",
        "MessageModel: CLUSTERING",
        "ConsumeFromWhere: CONSUME_FROM_LAST_OFFSET",
    ]
    assert tool("consumerConnection", "-g", SHOP, "-b", tool.broker_addr) == printed


def test_a_group_that_is_offline_is_reported(tool: Tool) -> None:
    assert "no consumer of group 'away'" in tool.fails("consumerConnection", "-g", "away")


@pytest.mark.usefixtures("sent")
def test_producers_are_printed(tool: Tool, options: Options) -> None:
    with Producer("makers", options=options) as producer:
        producer.send(Message(ORDERS, b"hello"))
        of_group = tool("producerConnection", "-g", "makers", "-t", ORDERS)
        of_broker = tool("producer", "-b", tool.broker_addr)

    assert of_group.split()[:2] == ["0001", options.client_id]
    assert f"producer group (makers) instance : clientId={options.client_id},remoteIP=/127.0.0.1:" in of_broker


@pytest.mark.usefixtures("sent")
def test_an_offline_producer_group_is_reported(tool: Tool) -> None:
    assert "no member of producer group 'ghosts'" in tool.fails("producerConnection", "-g", "ghosts", "-t", ORDERS)


def test_the_running_info_of_a_consumer_is_printed(tool: Tool, consumer: PushConsumer) -> None:
    client_id = consumer.options.client_id

    printed = tool("consumerStatus", "-g", SHOP, "-i", client_id)
    (value,) = tool.json("consumerStatus", "-g", SHOP, "-i", client_id)

    headings = [line for line in printed.splitlines() if line.startswith("#Consumer") and line.endswith("#")]
    assert headings == [
        *("#Consumer Properties#", "#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#"),
        "#Consumer RT&TPS#",
    ]
    assert value["clientId"] == client_id


def test_the_running_info_of_all_consumers_is_written_to_files(
    tool: Tool, consumer: PushConsumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    printed = tool("consumerStatus", "-g", SHOP)

    path = tmp_path / printed.splitlines()[1].split()[-1]
    assert path.read_text().startswith("#Consumer Properties#\n")
    assert printed.endswith("\n\nSame subscription in the same group of consumer\n\nRebalance OK\n")


@pytest.mark.usefixtures("sent")
def test_a_client_id_with_a_path_cannot_escape_the_directory(
    tool: Tool, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = dataclasses.replace(options, client_ip=f"{tmp_path}/escaped")

    with PushConsumer("hostile", lambda _: Consumed.SUCCESS, topics=ORDERS, options=named):
        printed = tool("consumerStatus", "-g", "hostile")

    (directory,) = tmp_path.iterdir()
    (file,) = directory.iterdir()
    assert printed.splitlines()[1].endswith(f" {file.relative_to(tmp_path)}")


def test_an_unknown_client_id_is_an_error(tool: Tool, consumer: PushConsumer) -> None:
    assert "ghost" in tool.fails("consumerStatus", "-g", SHOP, "-i", "ghost")
