"""Who is connected, and what consumers say of themselves."""

import dataclasses
from pathlib import Path

import pytest

from kerolox.client.sync import Consumed, Message, Options, Producer, PushConsumer
from tests.cli.admin.tools import ORDERS, SHOP, Tool


def test_the_members_of_a_group_are_printed_with_what_they_want(tool: Tool, consumer: PushConsumer) -> None:
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


def test_a_group_of_which_nobody_is_there_is_told_so(tool: Tool) -> None:
    assert "nobody of group 'away'" in tool.fails("consumerConnection", "-g", "away")


@pytest.mark.usefixtures("sent")
def test_producers_are_printed(tool: Tool, options: Options) -> None:
    with Producer("makers", options=options) as producer:
        producer.send(Message(ORDERS, b"hello"))
        of_group = tool("producerConnection", "-g", "makers", "-t", ORDERS)
        of_broker = tool("producer", "-b", tool.broker_addr)

    assert of_group.split()[:2] == ["0001", options.client_id]
    assert f"producer group (makers) instance : clientId={options.client_id},remoteIP=/127.0.0.1:" in of_broker


@pytest.mark.usefixtures("sent")
def test_producers_that_are_not_there_are_not_found(tool: Tool) -> None:
    assert "nobody of producer group 'ghosts'" in tool.fails("producerConnection", "-g", "ghosts", "-t", ORDERS)


def test_what_a_consumer_says_of_itself_is_printed(tool: Tool, consumer: PushConsumer) -> None:
    client_id = consumer.options.client_id

    printed = tool("consumerStatus", "-g", SHOP, "-i", client_id)
    (value,) = tool.json("consumerStatus", "-g", SHOP, "-i", client_id)

    headings = [line for line in printed.splitlines() if line.startswith("#Consumer") and line.endswith("#")]
    assert headings == [
        *("#Consumer Properties#", "#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#"),
        "#Consumer RT&TPS#",
    ]
    assert value["clientId"] == client_id


def test_what_all_consumers_say_goes_to_files(
    tool: Tool, consumer: PushConsumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    printed = tool("consumerStatus", "-g", SHOP)

    path = tmp_path / printed.splitlines()[1].split()[-1]
    assert path.read_text().startswith("#Consumer Properties#\n")
    assert printed.endswith("\n\nSame subscription in the same group of consumer\n\nRebalance OK\n")


@pytest.mark.usefixtures("sent")
def test_what_a_consumer_calls_itself_leads_to_no_other_file(
    tool: Tool, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = dataclasses.replace(options, client_ip=f"{tmp_path}/escaped")

    with PushConsumer("hostile", lambda _: Consumed.SUCCESS, topics=ORDERS, options=named):
        printed = tool("consumerStatus", "-g", "hostile")

    (directory,) = tmp_path.iterdir()
    (file,) = directory.iterdir()
    assert printed.splitlines()[1].endswith(f" {file.relative_to(tmp_path)}")


def test_a_consumer_that_is_not_there_says_nothing(tool: Tool, consumer: PushConsumer) -> None:
    assert "ghost" in tool.fails("consumerStatus", "-g", SHOP, "-i", "ghost")
