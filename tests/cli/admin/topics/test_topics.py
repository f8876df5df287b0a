"""Commands that create, change and delete topics."""

import json
from pathlib import Path

import pytest

from kerolox.admin.sync import AdminClient
from tests.cli.admin.tools import Tool


def test_a_topic_is_created_on_a_broker_or_a_cluster_with_javas_text(tool: Tool, client: AdminClient) -> None:
    on_broker = tool("updateTopic", "-b", tool.broker_addr, "-t", "one", "-r", "2", "-w", "3", "-p", "4")
    on_cluster = tool("updateTopic", "-c", "DefaultCluster", "-t", "wide")

    assert on_broker == (
        f"create topic to {tool.broker_addr} success.\n"
        "TopicConfig [topicName=one, readQueueNums=2, writeQueueNums=3, perm=R--, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false]"
    )
    assert "readQueueNums=8, writeQueueNums=8, perm=RW-" in on_cluster
    assert client.topics.configs("one")["broker-a"].write_queue_nums == 3
    assert client.topics.configs("wide")["broker-a"].perm == 6


def test_an_ordered_topic_has_an_order_configuration(tool: Tool, client: AdminClient) -> None:
    on_broker = tool("updateTopic", "-b", tool.broker_addr, "-t", "lined", "-o", "true")
    on_cluster = tool("updateTopic", "-c", "DefaultCluster", "-t", "lined", "-o", "true")

    assert on_broker.startswith("set broker orderConf. isOrder=true, orderConf=[broker-a:8]create topic to")
    assert "set cluster orderConf. isOrder=true, orderConf=[broker-a:8]TopicConfig" in on_cluster
    assert client.topics.order("lined") == {"broker-a": 8}


def test_an_invalid_topic_name_is_refused_in_one_line(tool: Tool) -> None:
    assert "'no good' is not a valid name" in tool.fails("updateTopic", "-c", "DefaultCluster", "-t", "no good")


def test_an_unknown_cluster_is_reported_with_the_known_ones(tool: Tool) -> None:
    error = tool.fails("updateTopic", "-c", "Nowhere", "-t", "one")

    assert error == "unknown cluster 'Nowhere'; known clusters: DefaultCluster"


def test_permissions_are_changed_and_equal_ones_are_reported(tool: Tool, client: AdminClient) -> None:
    client.topics.create("permitted")

    of_broker = tool("updateTopicPerm", "-b", tool.broker_addr, "-t", "permitted", "-p", "4")
    same = tool("updateTopicPerm", "-b", tool.broker_addr, "-t", "permitted", "-p", "4")
    of_cluster = tool("updateTopicPerm", "-c", "DefaultCluster", "-t", "permitted", "-p", "6")

    assert of_broker.splitlines()[0] == f"update topic perm from 6 to 4 in {tool.broker_addr} success."
    assert of_broker.splitlines()[1].endswith("order=false].")
    assert same == "new perm equals to the old one!\n"
    assert of_cluster == f"update topic perm from 4 to 6 in {tool.broker_addr} success.\n"
    assert client.topics.configs("permitted")["broker-a"].perm == 6


def test_permissions_need_a_broker_that_has_the_topic(tool: Tool, client: AdminClient) -> None:
    client.topics.create("permitted")

    unknown = tool.fails("updateTopicPerm", "-b", tool.broker_addr, "-t", "not-permitted", "-p", "4")
    assert f"topic 'not-permitted' is not known to {tool.broker_addr}" in unknown
    assert "cannot connect" in tool.fails("updateTopicPerm", "-b", "127.0.0.1:1", "-t", "permitted", "-p", "4")
    assert "-b" in tool.run("updateTopicPerm", "-t", "permitted", "-p", "4").stderr


def test_a_topic_is_deleted(tool: Tool, client: AdminClient) -> None:
    client.topics.create("gone")

    printed = tool("deleteTopic", "-c", "DefaultCluster", "-t", "gone")

    assert printed == (
        "delete topic [gone] from cluster [DefaultCluster] success.\ndelete topic [gone] from NameServer success.\n"
    )
    assert "gone" not in client.topics.names()


def test_topics_are_created_from_a_file(tool: Tool, client: AdminClient, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"topicName": "listed1", "writeQueueNums": 3}, {"topicName": "listed2"}]))

    printed = tool("updateTopicList", "-c", "DefaultCluster", "-f", str(file))

    assert printed == f"submit batch of topic config to {tool.broker_addr} success, please check the result later.\n"
    assert client.topics.configs("listed1")["broker-a"].write_queue_nums == 3
    assert "listed2" in client.topics.names()


@pytest.mark.parametrize("command", ["updateTopicList", "updateSubGroupList"])
def test_a_file_without_a_list_is_reported(tool: Tool, tmp_path: Path, command: str) -> None:
    """The flags are right, so no help is printed; Java prints nothing for an empty list."""
    file = tmp_path / "list.json"
    arguments = (command, "-c", "DefaultCluster", "-f", str(file))

    missing = tool.fails(*arguments)
    file.write_text("[{")
    broken = tool.fails(*arguments)
    file.write_text("[]")
    empty = tool(*arguments)
    strict = tool.run(*arguments, is_java=False)

    what = "topics" if command == "updateTopicList" else "groups"
    assert missing == f"file {file} cannot be read: No such file or directory"
    assert broken.startswith(f"file {file} is not a JSON list of {what}: ")
    assert empty == ""
    assert (strict.exit_code, strict.stderr) == (1, f"Error: file {file} contains no {what}\n")


def test_attributes_are_set_and_deleted(tool: Tool, client: AdminClient) -> None:
    made = tool("updateTopic", "-c", "DefaultCluster", "-t", "timed", "-a", "+message.type=DELAY")
    with_it = client.topics.configs("timed")["broker-a"].attributes
    tool("updateTopic", "-c", "DefaultCluster", "-t", "cleaned", "-a", "+message.type=FIFO")
    tool("updateTopic", "-c", "DefaultCluster", "-t", "cleaned", "-a", "-message.type")

    assert made.endswith("order=false, attributes={+message.type=DELAY}]")
    assert with_it == {"message.type": "DELAY"}
    assert not client.topics.configs("cleaned")["broker-a"].attributes
    wrong = tool.run("updateTopic", "-c", "DefaultCluster", "-t", "timed", "-a", "message.type")
    assert "expected +name=value or -name" in wrong.stderr
