"""Commands that create, change, delete and show groups."""

import json
from pathlib import Path

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.errors import GroupNotFound
from tests.cli.admin.tools import Tool


def test_a_group_is_created_with_javas_text_and_defaults(tool: Tool, client: AdminClient) -> None:
    printed = tool("updateSubGroup", "-c", "DefaultCluster", "-g", "made", "-r", "3", "-m", "true")

    assert printed == (
        f"create subscription group to {tool.broker_addr} success.\n"
        "SubscriptionGroupConfig [groupName=made, consumeEnable=true, consumeFromMinEnable=true, "
        "consumeBroadcastEnable=false, retryQueueNums=1, retryMaxTimes=3, brokerId=0, "
        "whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true]"
    )
    assert client.groups.configs("made")["broker-a"].retry_max_times == 3


def test_creating_a_group_needs_a_broker_or_cluster(tool: Tool) -> None:
    result = tool.run("updateSubGroup", "-g", "made")

    assert (result.exit_code, result.stdout.split()[:3]) == (1, ["usage:", "mqadmin", "updateSubGroup"])


def test_the_settings_of_a_group_are_printed(tool: Tool, client: AdminClient) -> None:
    client.groups.create("seen")

    lines = tool("getConsumerConfig", "-g", "seen").splitlines()

    assert lines[0] == "=============================DefaultCluster:broker-a============================="
    assert lines[1] == "groupName                               =  seen"
    assert len(lines) == 10
    assert tool.json("getConsumerConfig", "-g", "seen")[0]["retryMaxTimes"] == 16


def test_settings_of_5x_are_printed_unless_default(tool: Tool, client: AdminClient) -> None:
    client.groups.create("lined")
    client.groups.update("lined", consume_message_orderly=True)

    assert "consumeMessageOrderly                   =  true" in tool("getConsumerConfig", "-g", "lined")


def test_a_group_with_flags_of_5x_is_printed_as_in_5x(tool: Tool) -> None:
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}'

    printed = tool("updateSubGroup", "-b", tool.broker_addr, "-g", "patient", "-p", policy)

    assert printed.endswith(
        "\nSubscriptionGroupConfig{groupName=patient, consumeEnable=true, consumeFromMinEnable=false, "
        "consumeBroadcastEnable=false, consumeMessageOrderly=false, retryQueueNums=1, retryMaxTimes=16, "
        "groupRetryPolicy=GroupRetryPolicy{type=EXPONENTIAL, exponentialRetryPolicy="
        "ExponentialRetryPolicy{initial=1000, max=60000, multiplier=3}, customizedRetryPolicy=null}, brokerId=0, "
        "whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true, groupSysFlag=0, "
        "consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}"
    )


def test_mqadmin_prints_nothing_for_an_unknown_group(tool: Tool) -> None:
    assert tool("getConsumerConfig", "-g", "nobody") == ""


def test_a_group_is_deleted_from_a_broker_or_with_its_topics(tool: Tool, client: AdminClient) -> None:
    client.groups.create("leaving")

    of_broker = tool("deleteSubGroup", "-b", tool.broker_addr, "-g", "leaving")
    of_cluster = tool("deleteSubGroup", "-c", "DefaultCluster", "-g", "leaving", "-r", "true").splitlines()

    assert of_broker == f"delete subscription group [leaving] from broker [{tool.broker_addr}] success.\n"
    assert of_cluster[0].endswith("in cluster [DefaultCluster] success.")
    assert of_cluster[-1] == "delete topic [%DLQ%leaving] from NameServer success."
    with pytest.raises(GroupNotFound):
        client.groups.configs("leaving")


def test_groups_are_created_from_a_file(tool: Tool, client: AdminClient, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"groupName": "listed", "retryMaxTimes": 5}]))

    printed = tool("updateSubGroupList", "-b", tool.broker_addr, "-f", str(file))

    assert printed == f"submit batch of group config to {tool.broker_addr} success, please check the result later.\n"
    assert client.groups.configs("listed")["broker-a"].retry_max_times == 5


def test_the_consume_mode_is_set(tool: Tool, client: AdminClient) -> None:
    client.topics.create("popped")
    client.groups.create("poppers")

    printed = tool("setConsumeMode", "-c", "DefaultCluster", "-t", "popped", "-g", "poppers", "-m", "POP", "-q", "2")

    assert printed.splitlines() == [
        f"set consume mode to {tool.broker_addr} success.",
        "topic[popped] group[poppers] consume mode[POP] popShareQueueNum[2]",
    ]
    wrong = tool.run("setConsumeMode", "-c", "DefaultCluster", "-t", "popped", "-g", "poppers", "-m", "SIP")
    assert "expected PULL or POP" in wrong.stderr


def test_an_orderly_group_with_a_retry_policy_is_created(tool: Tool, client: AdminClient) -> None:
    policy = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'

    tool("updateSubGroup", "-c", "DefaultCluster", "-g", "patient", "-o", "true", "-p", policy)

    config = client.groups.configs("patient")["broker-a"]
    assert config.consume_message_orderly
    assert config.group_retry_policy is not None
    assert config.group_retry_policy.customized_retry_policy == {"next": [1000, 5000]}
    wrong = tool.run("updateSubGroup", "-c", "DefaultCluster", "-g", "patient", "-p", "{")
    assert "--groupRetryPolicy" in wrong.stderr
