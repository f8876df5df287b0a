"""Exporting topics, groups and settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.cli.admin.cluster import export
from tests.cli.admin.tools import ORDERS, SHOP, Tool

pytestmark = pytest.mark.usefixtures("sent")


def exported(tool: Tool, file: Path, *arguments: str) -> Any:
    assert tool(*arguments, "-f", str(file.parent)).rstrip("\n") == f"export {file} success"
    return json.loads(file.read_text())


def test_topics_and_groups_of_a_cluster_are_exported(tool: Tool, tmp_path: Path) -> None:
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


def test_topics_or_groups_can_be_exported_alone(tool: Tool, tmp_path: Path) -> None:
    topics = exported(tool, tmp_path / "topic.json", "exportMetadata", "-c", "DefaultCluster", "-t")
    groups = exported(tool, tmp_path / "subscriptionGroup.json", "exportMetadata", "-c", "DefaultCluster", "-g")

    assert topics.keys() == {"exportTime", "topicConfigTable"}
    assert groups.keys() == {"exportTime", "subscriptionGroupTable"}


def test_the_tables_of_a_broker_are_exported_with_their_versions(tool: Tool, tmp_path: Path) -> None:
    topics = exported(tool, tmp_path / "topic.json", "exportMetadata", "-b", tool.broker_addr, "-t")
    groups = exported(tool, tmp_path / "subscriptionGroup.json", "exportMetadata", "-b", tool.broker_addr, "-g")

    assert topics["dataVersion"]["counter"] > 0
    assert SHOP in groups["subscriptionGroupTable"]
    assert "give one of -b" in tool.run("exportMetadata").stderr


def test_topic_attributes_of_5x_are_exported_unless_empty(tool: Tool, client: AdminClient, tmp_path: Path) -> None:
    client.topics.create("timed", attributes={"message.type": "DELAY"})

    document = exported(tool, tmp_path / "topic.json", "exportMetadata", "-c", "DefaultCluster", "-t")

    assert document["topicConfigTable"]["timed"]["attributes"] == {"message.type": "DELAY"}


def test_settings_are_exported(tool: Tool, tmp_path: Path) -> None:
    document = exported(tool, tmp_path / "configs.json", "exportConfigs", "-c", "DefaultCluster")

    assert document["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}
    assert document["brokerConfigs"]["broker-a"]["brokerName"] == "broker-a"


def test_an_unwritable_directory_is_reported(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert "file" in tool.fails("exportConfigs", "-c", "DefaultCluster", "-f", str(tmp_path / "file"))


def test_a_world_writable_default_folder_is_refused(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = tmp_path / "rocketmq"
    prepared.mkdir()
    prepared.chmod(0o777)
    monkeypatch.setattr(export, "DEFAULT_DIRECTORY", str(prepared / "export"))

    assert f"{prepared} is not safe" in tool.fails("exportConfigs", "-c", "DefaultCluster")
    assert list(prepared.iterdir()) == []


def test_an_export_replaces_a_link_and_leaves_its_target(tool: Tool, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / "configs.json").symlink_to(precious)

    exported(tool, tmp_path / "configs.json", "exportConfigs", "-c", "DefaultCluster")

    assert precious.read_text() == "keep"
    assert not (tmp_path / "configs.json").is_symlink()
