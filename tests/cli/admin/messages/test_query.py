"""Commands that find messages, and push or resend them."""

from pathlib import Path

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.client.sync import Message, Options, Producer, PushConsumer
from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows


@pytest.fixture(autouse=True)
def bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "msgbodys"


@pytest.fixture
def offset_ids(client: AdminClient, sent: list[str]) -> list[str]:
    return [client.messages.by_id(message_id, ORDERS).offset_id for message_id in sent]


def test_a_message_is_found_by_its_offset_id_and_its_body_is_written(
    tool: Tool, sent: list[str], offset_ids: list[str], bodies: Path
) -> None:
    lines = tool("queryMsgById", "-i", offset_ids[0]).splitlines()

    assert lines[0] == f"OffsetID:            {offset_ids[0]}"
    assert lines[2:4] == ["Tags:                [even]", "Keys:                [key0]"]
    assert lines[14] == f"Message Body Path:   {bodies / sent[0]}"
    assert lines[-1] == "WARN: No Consumer"
    assert (bodies / sent[0]).read_bytes() == b"body 0"


@pytest.mark.parametrize("kind", ["../escaped", "{tmp_path}/escaped", "..", "long" * 100])
def test_a_message_id_with_a_path_cannot_escape_the_directory(
    tool: Tool, options: Options, bodies: Path, tmp_path: Path, kind: str
) -> None:
    with Producer("senders", options=options) as producer:
        result = producer.send(Message("chosen", b"mine", message_id=kind.format(tmp_path=tmp_path)))

    printed = tool("queryMsgById", "-i", result.offset_id)

    (body,) = bodies.iterdir()
    assert f"Message Body Path:   {body}\n" in printed
    assert body.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [bodies.parent]


def test_a_planted_link_is_not_followed_when_a_body_is_written(
    tool: Tool, sent: list[str], offset_ids: list[str], bodies: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")
    bodies.mkdir(parents=True, mode=0o700)
    (bodies / sent[0]).symlink_to(precious)

    tool("queryMsgById", "-i", offset_ids[0])

    assert precious.read_bytes() == b"keep"
    assert not (bodies / sent[0]).is_symlink()
    assert (bodies / sent[0]).read_bytes() == b"body 0"
    assert (bodies / sent[0]).stat().st_mode & 0o777 == 0o600
    assert bodies.stat().st_mode & 0o777 == 0o700


def test_a_world_writable_folder_is_refused_for_bodies(tool: Tool, offset_ids: list[str], bodies: Path) -> None:
    bodies.mkdir(parents=True)
    bodies.chmod(0o777)

    assert f"{bodies} is not safe: another user could put links there" in tool.fails(
        "queryMsgById", "-i", offset_ids[0]
    )
    assert list(bodies.iterdir()) == []


def test_several_messages_are_printed_as_json(tool: Tool, offset_ids: list[str]) -> None:
    found = tool.json("queryMsgById", "-i", f"{offset_ids[0]},{offset_ids[1]}")

    assert [message["body"] for message in found] == ["body 0", "body 1"]
    assert found[0]["properties"]["TAGS"] == "even"


def test_an_invalid_offset_id_is_reported_with_another_command(tool: Tool) -> None:
    assert "queryMsgByUniqueKey" in tool.fails("queryMsgById", "-i", "00")


def test_a_message_is_found_by_its_unique_key(tool: Tool, sent: list[str]) -> None:
    printed = tool("queryMsgByUniqueKey", "-i", sent[1], "-t", ORDERS, "-a")

    assert printed.startswith("Topic:               orders\nTags:                [odd]\n")
    assert "has a message with the id nothing" in tool.fails("queryMsgByUniqueKey", "-i", "nothing", "-t", ORDERS)


def test_a_message_is_found_by_its_key(tool: Tool, sent: list[str]) -> None:
    assert rows(tool("queryMsgByKey", "-t", ORDERS, "-k", "key3")) == [[sent[3], "1", "1"]]
    assert "has the key 'nothing'" in tool.fails("queryMsgByKey", "-t", ORDERS, "-k", "nothing")


def test_messages_are_found_by_tag_and_shown_with_their_index_key(tool: Tool, sent: list[str]) -> None:
    found = rows(tool("queryMsgByKey", "-t", ORDERS, "-k", "odd", "-p", "T"))

    assert [row[:3] for row in found] == [[sent[1], "1", "0"], [sent[3], "1", "1"], [sent[5], "1", "2"]]
    hour, *named, _ = found[0][3].split("@")
    assert int(hour) % 3_600_000 == 0
    assert named == [ORDERS, "T", "odd", sent[1]]
    assert "has the tag 'key3'" in tool.fails("queryMsgByKey", "-t", ORDERS, "-k", "key3", "-p", "T")


def test_a_key_is_looked_up_in_one_cluster_and_after_a_last_key(tool: Tool, sent: list[str]) -> None:
    key = ("queryMsgByKey", "-t", ORDERS, "-k", "key3")

    assert rows(tool(*key, "-c", "DefaultCluster")) == [[sent[3], "1", "1"]]
    assert [row[0] for row in rows(tool(*key, "-l", "0@orders@K@key3@id@0"))] == [sent[3]]
    assert "not in cluster 'elsewhere'" in tool.fails(*key, "-c", "elsewhere")
    assert "give K for keys or T for tags" in tool.run(*key, "-p", "X").stderr


@pytest.mark.usefixtures("sent")
def test_a_message_is_found_by_its_offset(tool: Tool) -> None:
    printed = tool("queryMsgByOffset", "-t", ORDERS, "-b", "broker-a", "-i", "1", "-o", "2")

    assert "Keys:                [key5]\n" in printed
    assert "{MIN_OFFSET=0, MAX_OFFSET=3, KEYS=key5, " in printed
    assert "no message at offset 99" in tool.fails(
        "queryMsgByOffset", "-t", ORDERS, "-b", "broker-a", "-i", "1", "-o", "99"
    )


def test_a_message_is_pushed_to_a_consumer(
    tool: Tool, sent: list[str], offset_ids: list[str], consumer: PushConsumer
) -> None:
    target = ("-g", SHOP, "-d", consumer.options.client_id)

    by_offset_id = tool("queryMsgById", "-i", offset_ids[0], *target)
    by_key = tool("queryMsgByUniqueKey", "-i", sent[0], "-t", ORDERS, *target)

    assert "consumeResult=CR_SUCCESS" in by_offset_id
    assert "consumeResult=CR_SUCCESS" in by_key


def test_a_message_is_resent_with_its_id(tool: Tool, client: AdminClient, options: Options) -> None:
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
    assert "no trace of message nothing" in tool.fails("queryMsgTraceById", "-i", "nothing")


def test_a_message_is_found_by_its_unique_key_if_its_topic_is_given(tool: Tool, sent: list[str]) -> None:
    assert "Keys:                [key2]\n" in tool("queryMsgById", "-i", sent[2], "-t", ORDERS)


@pytest.mark.usefixtures("sent")
def test_messages_with_a_key_are_found_between_two_times(tool: Tool) -> None:
    assert len(rows(tool("queryMsgByKey", "-t", ORDERS, "-k", "key3", "-b", "0", "-m", "1"))) == 1
    assert "has the key" in tool.fails("queryMsgByKey", "-t", ORDERS, "-k", "key3", "-e", "1")
