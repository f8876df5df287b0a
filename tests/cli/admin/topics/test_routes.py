"""Commands that inspect topics."""

import json

import pytest

from kerolox.admin.sync import AdminClient
from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows

pytestmark = pytest.mark.usefixtures("sent")


def test_a_route_is_printed_as_javas_json(tool: Tool) -> None:
    printed = tool("topicRoute", "-t", ORDERS)

    expected = (
        '{\n\t"brokerDatas":[\n\t\t{\n\t\t\t"brokerAddrs":{0:"ADDRESS"\n\t\t\t},\n\t\t\t"brokerName":"broker-a",\n'
        '\t\t\t"cluster":"DefaultCluster"\n\t\t}\n\t],\n\t"filterServerTable":{},\n\t"queueDatas":[\n\t\t{\n'
        '\t\t\t"brokerName":"broker-a",\n\t\t\t"perm":6,\n\t\t\t"readQueueNums":2,\n\t\t\t"topicSysFlag":0,\n'
        '\t\t\t"writeQueueNums":2\n\t\t}\n\t]\n}\n'
    )
    assert printed == expected.replace("ADDRESS", tool.broker_addr)


def test_a_route_as_a_list_has_a_line_of_totals(tool: Tool) -> None:
    heading, row, rule, total = tool("topicRoute", "-t", ORDERS, "-l").splitlines()

    assert heading.split() == ["#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"]
    assert row.split() == ["DefaultCluster", "broker-a", f"{{0={tool.broker_addr}}}", "2", "2", "6"]
    assert rule == "-" * 158
    assert total.split() == ["Total:", "1", "2", "2"]


def test_a_route_is_printed_as_json(tool: Tool) -> None:
    (route,) = tool.json("topicRoute", "-t", ORDERS)

    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": tool.broker_addr}
    assert route["queueDatas"][0]["writeQueueNums"] == 2


def test_an_unknown_topic_has_no_route(tool: Tool) -> None:
    error = tool.fails("topicRoute", "-t", "nothing")

    assert error == (
        "no NameServer has a route of topic 'nothing' (TOPIC_NOT_EXIST, 17); `kerolox admin topicList` lists the topics"
    )


def test_the_status_shows_the_offsets_of_queues(tool: Tool) -> None:
    found = rows(tool("topicStatus", "-t", ORDERS))

    assert [row[:4] for row in found] == [["broker-a", "0", "0", "3"], ["broker-a", "1", "0", "3"]]
    assert tool.json("topicStatus", "-t", ORDERS)[1]["maxOffset"] == 3


def test_the_clusters_of_a_topic_are_listed(tool: Tool) -> None:
    assert tool("topicClusterList", "-t", ORDERS) == "DefaultCluster\n"


def test_topics_are_listed_with_and_without_clusters_and_groups(
    tool: Tool, client: AdminClient, consumed: None
) -> None:
    names = tool("topicList").splitlines()
    table = rows(tool("topicList", "-c"))

    assert {ORDERS, f"%RETRY%{SHOP}", "TBW102"} <= set(names)
    assert ["DefaultCluster", ORDERS, SHOP] in table
    assert not [row for row in table if row[1].startswith("%RETRY%")]


def test_an_order_configuration_is_put_got_and_deleted(tool: Tool) -> None:
    put = tool("updateOrderConf", "-t", ORDERS, "-m", "put", "-v", "broker-a:4")
    got = tool("updateOrderConf", "-t", ORDERS, "-m", "get")
    deleted = tool("updateOrderConf", "-t", ORDERS, "-m", "delete")

    assert put == "update orderConf success. topic=[orders], orderConf=[broker-a:4]"
    assert got == "get orderConf success. topic=[orders], orderConf=[broker-a:4] "
    assert deleted == "delete orderConf success. topic=[orders]"
    assert "has no order configuration" in tool.fails("updateOrderConf", "-t", ORDERS, "-m", "get")


@pytest.mark.parametrize("arguments", [("-m", "put"), ("-m", "guess")])
def test_an_invalid_order_configuration_is_refused(tool: Tool, arguments: tuple[str, ...]) -> None:
    result = tool.run("updateOrderConf", "-t", ORDERS, *arguments)

    assert result.exit_code == 1
    assert "usage: mqadmin updateOrderConf" in result.stdout


def test_queues_are_allocated_to_clients(tool: Tool) -> None:
    printed = tool("allocateMQ", "-t", ORDERS, "-i", "192.0.2.1,192.0.2.2")

    result = json.loads(printed)["result"]
    assert {client: len(queues) for client, queues in result.items()} == {"192.0.2.1": 1, "192.0.2.2": 1}
