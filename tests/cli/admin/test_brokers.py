"""Brokers are looked at, set and cleaned."""

import pytest

from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows


def test_the_status_of_a_broker_is_printed_in_order_of_its_keys(tool: Tool) -> None:
    lines = tool("brokerStatus", "-b", tool.broker_addr).splitlines()
    of_cluster = tool("brokerStatus", "-c", "DefaultCluster").splitlines()

    keys = [line.partition(":")[0].strip() for line in lines]
    assert keys == sorted(keys)
    assert "brokerVersionDesc               : V5_5_0" in lines
    assert all(line.startswith(f"{tool.broker_addr:<24} ") for line in of_cluster)
    assert tool.json("brokerStatus", "-b", tool.broker_addr)[0]["brokerVersionDesc"] == "V5_5_0"


def test_settings_are_printed_and_changed(tool: Tool) -> None:
    changed = tool("updateBrokerConfig", "-b", tool.broker_addr, "-k", "flushDelayOffsetInterval", "-v", "12000")
    of_broker = tool("getBrokerConfig", "-b", tool.broker_addr)
    of_cluster = tool("getBrokerConfig", "-c", "DefaultCluster")

    assert changed == f"update broker config success, {tool.broker_addr}\n"
    assert of_broker.startswith(f"============{tool.broker_addr}============\n")
    assert f"{'flushDelayOffsetInterval':<50}=  12000\n" in of_broker
    assert of_cluster.startswith(f"============Master: {tool.broker_addr}============\n")


def test_what_may_not_be_set_is_refused_and_the_broker_named(tool: Tool) -> None:
    told = tool.fails("updateBrokerConfig", "-c", "DefaultCluster", "-k", "storePathRootDir", "-v", "/nowhere")

    assert told.startswith(f"{tool.broker_addr}: storePathRootDir cannot be changed")


@pytest.mark.parametrize("command", ["brokerStatus", "getBrokerConfig"])
def test_a_place_is_needed(tool: Tool, command: str) -> None:
    assert "give one of -b" in tool.run(command).stderr


def test_a_broker_that_is_not_there_is_told_with_a_remedy(tool: Tool) -> None:
    told = tool.fails("brokerStatus", "-b", "127.0.0.1:1")

    assert "127.0.0.1:1" in told
    assert "is it running there?" in told


def test_how_far_groups_are_on_a_broker_is_printed(tool: Tool, consumed: None) -> None:
    printed = tool("brokerConsumeStats", "-b", tool.broker_addr)
    far_behind = tool("brokerConsumeStats", "-b", tool.broker_addr, "-l", "100")

    assert [row[:7] for row in rows(printed)[:2]] == [
        [ORDERS, SHOP, "broker-a", "0", "3", "3", "0"],
        [ORDERS, SHOP, "broker-a", "1", "3", "3", "0"],
    ]
    assert printed.endswith("\n\nDiff Total: 0\n")
    assert far_behind.splitlines()[1:] == ["", "Diff Total: 0"]


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_stores_are_cleaned_of_one_broker_a_cluster_or_all(tool: Tool, command: str) -> None:
    assert tool(command, "-b", tool.broker_addr) == "success"
    assert tool(command, "-c", "DefaultCluster") == "success"
    assert tool(command) == "success"


def test_slaves_are_set_too_if_that_is_wanted(tool: Tool) -> None:
    change = ("-c", "DefaultCluster", "-k", "flushDelayOffsetInterval", "-v", "9000", "-a", "true")

    assert tool("updateBrokerConfig", *change) == f"update broker config success, {tool.broker_addr}\n"
