"""Topics, groups and settings are written to files."""

import json
from pathlib import Path
from typing import Any

import pytest

from kerolox.admin.sync import AdminClient
from tests.cli.admin.tools import ORDERS, SHOP, Tool

pytestmark = pytest.mark.usefixtures("sent")


def exported(tool: Tool, file: Path, *arguments: str) -> Any:
    assert tool(*arguments, "-f", str(file.parent)).rstrip("\n") == f"export {file} success"
    return json.loads(file.read_text())


def test_topics_and_groups_of_a_cluster_are_written(tool: Tool, tmp_path: Path) -> None:
    document = exported(tool, tmp_path / "metadata.json", "exportMetadata", "-c", "DefaultCluster")

    assert document["topicConfigTable"][ORDERS] == {
        "order": False,
        "perm": 6,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": ORDERS,
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }
    assert document["subscriptionGroupTable"][SHOP]["retryMaxTimes"] == 16
    assert "TBW102" not in document["topicConfigTable"]
    assert "TOOLS_CONSUMER" not in document["subscriptionGroupTable"]
    assert document["exportTime"] > 0


def test_only_topics_or_only_groups_are_written(tool: Tool, tmp_path: Path) -> None:
    topics = exported(tool, tmp_path / "topic.json", "exportMetadata", "-c", "DefaultCluster", "-t")
    groups = exported(tool, tmp_path / "subscriptionGroup.json", "exportMetadata", "-c", "DefaultCluster", "-g")

    assert topics.keys() == {"exportTime", "topicConfigTable"}
    assert groups.keys() == {"exportTime", "subscriptionGroupTable"}


def test_the_tables_of_a_broker_are_written_with_their_versions(tool: Tool, tmp_path: Path) -> None:
    topics = exported(tool, tmp_path / "topic.json", "exportMetadata", "-b", tool.broker_addr, "-t")
    groups = exported(tool, tmp_path / "subscriptionGroup.json", "exportMetadata", "-b", tool.broker_addr, "-g")

    assert topics["dataVersion"]["counter"] > 0
    assert SHOP in groups["subscriptionGroupTable"]
    assert "give one of -b" in tool.run("exportMetadata").stderr


def test_what_5_adds_to_a_topic_is_written_if_it_says_something(
    tool: Tool, client: AdminClient, tmp_path: Path
) -> None:
    client.topics.create("timed", attributes={"message.type": "DELAY"})

    document = exported(tool, tmp_path / "topic.json", "exportMetadata", "-c", "DefaultCluster", "-t")

    assert document["topicConfigTable"]["timed"]["attributes"] == {"message.type": "DELAY"}


def test_settings_are_written(tool: Tool, tmp_path: Path) -> None:
    document = exported(tool, tmp_path / "configs.json", "exportConfigs", "-c", "DefaultCluster")

    assert document["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}
    assert document["brokerConfigs"]["broker-a"]["brokerName"] == "broker-a"


def test_a_directory_that_cannot_be_written_to_is_told(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert "file" in tool.fails("exportConfigs", "-c", "DefaultCluster", "-f", str(tmp_path / "file"))
