"""Status, settings and cleaning of brokers."""

import pytest

from kerolox.admin.sync import AdminClient
from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows


def test_the_status_of_a_broker_is_sorted_by_key(tool: Tool) -> None:
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


def test_a_read_only_setting_is_refused_with_the_broker_named(tool: Tool) -> None:
    error = tool.fails("updateBrokerConfig", "-c", "DefaultCluster", "-k", "storePathRootDir", "-v", "/nowhere")

    assert error.startswith(f"{tool.broker_addr}: storePathRootDir cannot be changed")


@pytest.mark.parametrize("command", ["brokerStatus", "getBrokerConfig"])
def test_a_broker_or_cluster_is_required(tool: Tool, command: str) -> None:
    assert "give one of -b" in tool.run(command).stderr


def test_an_unreachable_broker_is_reported_with_a_remedy(tool: Tool) -> None:
    error = tool.fails("brokerStatus", "-b", "127.0.0.1:1")

    assert "127.0.0.1:1" in error
    assert "is it running?" in error


def test_the_progress_of_groups_on_a_broker_is_printed(tool: Tool, consumed: None) -> None:
    printed = tool("brokerConsumeStats", "-b", tool.broker_addr)
    far_behind = tool("brokerConsumeStats", "-b", tool.broker_addr, "-l", "100")

    assert [row[:7] for row in rows(printed)[:2]] == [
        [ORDERS, SHOP, "broker-a", "0", "3", "3", "0"],
        [ORDERS, SHOP, "broker-a", "1", "3", "3", "0"],
    ]
    assert printed.endswith("\n\nDiff Total: 0\n")
    assert far_behind.splitlines()[1:] == ["", "Diff Total: 0"]


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_one_broker_a_cluster_or_all_are_cleaned(tool: Tool, command: str) -> None:
    assert tool(command, "-b", tool.broker_addr) == "success"
    assert tool(command, "-c", "DefaultCluster") == "success"
    assert tool(command) == "success"


def test_settings_of_slaves_can_be_changed_too(tool: Tool) -> None:
    change = ("-c", "DefaultCluster", "-k", "flushDelayOffsetInterval", "-v", "9000", "-a", "true")

    assert tool("updateBrokerConfig", *change) == f"update broker config success, {tool.broker_addr}\n"


# Without a NameServer


@pytest.mark.parametrize(
    "command",
    [
        ("updateTopic", "-t", "alone"),
        ("updateTopicPerm", "-t", "SELF_TEST_TOPIC", "-p", "6"),
        ("updateSubGroup", "-g", "alone"),
        ("setConsumeMode", "-t", ORDERS, "-g", SHOP, "-m", "PULL"),
        ("updateBrokerConfig", "-k", "traceOn", "-v", "true"),
        ("getBrokerConfig",),
        ("brokerStatus",),
        ("cleanExpiredCQ",),
        ("cleanUnusedTopic",),
        ("deleteExpiredCommitLog",),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.usefixtures("sent")
def test_a_broker_given_by_its_address_is_reached_without_a_name_server(tool: Tool, command: tuple[str, ...]) -> None:
    without = Tool("127.0.0.1:1", tool.broker_addr)

    assert without(*command, "-b", tool.broker_addr)


def test_a_group_is_deleted_from_a_broker_without_a_name_server(tool: Tool, client: AdminClient) -> None:
    without = Tool("127.0.0.1:1", tool.broker_addr)
    client.groups.create("leaving")

    deleted = without.run("deleteSubGroup", "-g", "leaving", "-b", tool.broker_addr, "--yes", is_java=False)
    again = without.run("deleteSubGroup", "-g", "leaving", "-b", tool.broker_addr, "--yes", is_java=False)

    assert (deleted.exit_code, again.exit_code) == (0, 1)
    assert "leaving" not in client.groups.all_configs(tool.broker_addr)
    assert f"broker {tool.broker_addr} has no group 'leaving'" in again.stderr
