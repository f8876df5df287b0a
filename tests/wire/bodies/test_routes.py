"""Routes and clusters in the two flavours of JSON."""

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.routes import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)

ROUTE = TopicRouteData(
    [BrokerData("broker-a", "DefaultCluster", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})],
    [QueueData("broker-a", 4, 4, 6)],
)


def test_a_route_is_written_as_java_writes_it() -> None:
    assert ROUTE.encode() == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
        b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_both_flavours_of_a_route_are_read_the_same() -> None:
    assert ROUTE.encode(strict=True) != ROUTE.encode()
    assert TopicRouteData.decode(ROUTE.encode(strict=True)) == TopicRouteData.decode(ROUTE.encode()) == ROUTE


def test_a_route_of_4_x_has_no_acting_master_and_no_zone() -> None:
    route = TopicRouteData.decode(b'{"brokerDatas":[{"brokerAddrs":{},"brokerName":"b","cluster":"c"}]}')

    assert (route.broker_datas[0].enable_acting_master, route.broker_datas[0].zone_name) == (False, None)


def test_a_route_that_only_registers_queues_has_no_brokers() -> None:
    assert TopicRouteData.decode(b'{"queueDatas":[{"brokerName":"b"}]}').broker_datas == []


def test_a_fastjson_reference_to_a_broker_is_resolved() -> None:
    """fastjson writes an object that it has written before as a reference."""
    info = ClusterInfo.decode(
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"x"},"brokerName":"a","cluster":"c"},'
        b'"b":{"$ref":"$.brokerAddrTable.a"}},"clusterAddrTable":{"c":["a"]}}'
    )

    assert info.broker_addr_table["b"] == info.broker_addr_table["a"] == BrokerData("a", "c", {0: "x"})


def test_a_group_of_brokers_is_written_as_java_writes_it() -> None:
    assert BrokerMemberGroupBody(BrokerMemberGroup("c", "b", {0: "x"})).encode() == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"x"},"brokerName":"b","cluster":"c"}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"queueDatas":[{"brokerName":"b","perm":2147483648}]}',
        '{"queueDatas":[{"brokerName":"b","readQueueNums":-2147483649}]}',
        '{"queueDatas":[{"brokerName":"b","writeQueueNums":%s}]}' % ("9" * 400),
        '{"brokerDatas":[{"brokerName":"b","brokerAddrs":{9223372036854775808:"x"}}]}',
        '{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"9223372036854775808":"x"}}]}',
    ],
)
def test_a_number_that_java_could_not_read_from_us_is_refused(text: str) -> None:
    """One broker's invalid number would make the routes of all clients unreadable."""
    with pytest.raises(ProtocolError, match="not a TopicRouteData: "):
        TopicRouteData.decode(text.encode())
