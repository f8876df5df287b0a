"""Messages are found and handed to consumers."""

from pathlib import Path

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.cli.admin import shown
from kerolox.client.sync import Message, Options, Producer, PushConsumer
from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows


@pytest.fixture(autouse=True)
def bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shown, "BODY_DIRECTORY", tmp_path / "bodies")
    return tmp_path / "bodies"


@pytest.fixture
def places(client: AdminClient, sent: list[str]) -> list[str]:
    return [client.messages.by_id(message_id, ORDERS).offset_id for message_id in sent]


def test_a_message_is_found_by_its_place_and_its_body_is_written(
    tool: Tool, sent: list[str], places: list[str], bodies: Path
) -> None:
    lines = tool("queryMsgById", "-i", places[0]).splitlines()

    assert lines[0] == f"OffsetID:            {places[0]}"
    assert lines[2:4] == ["Tags:                [even]", "Keys:                [key0]"]
    assert lines[14] == f"Message Body Path:   {bodies / sent[0]}"
    assert lines[-1] == "WARN: No Consumer"
    assert (bodies / sent[0]).read_bytes() == b"body 0"


@pytest.mark.parametrize("kind", ["../escaped", "{tmp_path}/escaped", "..", "long" * 100])
def test_an_id_that_a_producer_chose_leads_to_no_other_file(
    tool: Tool, options: Options, bodies: Path, tmp_path: Path, kind: str
) -> None:
    with Producer("senders", options=options) as producer:
        result = producer.send(Message("chosen", b"mine", message_id=kind.format(tmp_path=tmp_path)))

    printed = tool("queryMsgById", "-i", result.offset_id)

    (body,) = bodies.iterdir()
    assert f"Message Body Path:   {body}\n" in printed
    assert body.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [bodies]


def test_several_messages_are_found_at_once_also_for_machines(tool: Tool, places: list[str]) -> None:
    found = tool.json("queryMsgById", "-i", f"{places[0]},{places[1]}")

    assert [message["body"] for message in found] == ["body 0", "body 1"]
    assert found[0]["properties"]["TAGS"] == "even"


def test_what_is_no_id_is_told_with_the_command_that_may_help(tool: Tool) -> None:
    assert "queryMsgByUniqueKey" in tool.fails("queryMsgById", "-i", "00")


def test_a_message_is_found_by_its_producers_id(tool: Tool, sent: list[str]) -> None:
    printed = tool("queryMsgByUniqueKey", "-i", sent[1], "-t", ORDERS, "-a")

    assert printed.startswith("Topic:               orders\nTags:                [odd]\n")
    assert "has a message of id nothing" in tool.fails("queryMsgByUniqueKey", "-i", "nothing", "-t", ORDERS)


def test_a_message_is_found_by_its_key(tool: Tool, sent: list[str]) -> None:
    assert rows(tool("queryMsgByKey", "-t", ORDERS, "-k", "key3")) == [[sent[3], "1", "1"]]
    assert "has the key 'nothing'" in tool.fails("queryMsgByKey", "-t", ORDERS, "-k", "nothing")


@pytest.mark.usefixtures("sent")
def test_a_message_is_found_by_its_offset(tool: Tool) -> None:
    printed = tool("queryMsgByOffset", "-t", ORDERS, "-b", "broker-a", "-i", "1", "-o", "2")

    assert "Keys:                [key5]\n" in printed
    assert "{MIN_OFFSET=0, MAX_OFFSET=3, KEYS=key5, " in printed
    assert "there is no message at 99" in tool.fails(
        "queryMsgByOffset", "-t", ORDERS, "-b", "broker-a", "-i", "1", "-o", "99"
    )


def test_a_message_is_handed_to_a_consumer(
    tool: Tool, sent: list[str], places: list[str], consumer: PushConsumer
) -> None:
    target = ("-g", SHOP, "-d", consumer.options.client_id)

    by_place = tool("queryMsgById", "-i", places[0], *target)
    by_key = tool("queryMsgByUniqueKey", "-i", sent[0], "-t", ORDERS, *target)

    assert "consumeResult=CR_SUCCESS" in by_place
    assert "consumeResult=CR_SUCCESS" in by_key


def test_a_message_is_sent_again_under_its_id(tool: Tool, client: AdminClient, options: Options) -> None:
    client.topics.create("again", read_queues=1, write_queues=1)
    with Producer("senders", options=options) as producer:
        result = producer.send(Message("again", b"once more", tag="red", properties={"colour": "blue"}))

    printed = tool("queryMsgById", "-i", result.offset_id, "-s", "true")

    assert printed.startswith(f"prepare resend msg. originalMsgId={result.offset_id}SendResult [sendStatus=SEND_OK, ")
    copies = list(client.messages.read_topic("again"))
    assert [(it.message_id, it.body, it.tag, it.properties["colour"]) for it in copies] == [
        (result.message_id, b"once more", "red", "blue")
    ] * 2


def test_the_trace_of_a_message_is_printed(tool: Tool) -> None:
    (sent,) = tool.json("sendMessage", "-t", ORDERS, "-p", "hello", "-m", "true")

    heading, row, *_ = tool("queryMsgTraceById", "-i", sent["msgId"]).splitlines()

    assert heading.split() == ["#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"]
    assert (row.split()[0], row.split()[2], row.split()[-1]) == ("Pub", "127.0.0.1", "success")
    assert "nobody has told anything" in tool.fails("queryMsgTraceById", "-i", "nothing")


def test_a_message_is_found_by_either_id_if_its_topic_is_given(tool: Tool, sent: list[str]) -> None:
    assert "Keys:                [key2]\n" in tool("queryMsgById", "-i", sent[2], "-t", ORDERS)


@pytest.mark.usefixtures("sent")
def test_messages_with_a_key_are_found_between_two_times(tool: Tool) -> None:
    assert len(rows(tool("queryMsgByKey", "-t", ORDERS, "-k", "key3", "-b", "0", "-m", "1"))) == 1
    assert "has the key" in tool.fails("queryMsgByKey", "-t", ORDERS, "-k", "key3", "-e", "1")
