"""Responses from the route table."""

import asyncio

import pytest

from kerolox.codes import Version
from kerolox.errors import AnswerError, SystemFailure, TopicNotFound
from kerolox.namesrv import NamesrvConfig
from kerolox.wire import command
from kerolox.wire.bodies.routes import BrokerMemberGroupBody
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture, topic

STRICT = b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.5:10911"},"brokerName":"broker-a","cluster":"C",'
DIALECT = STRICT.replace(b'"0":', b"0:")


async def route_for(namesrv: NamesrvFixture, version: Version | int, **ext: str) -> bytes:
    """Return the body that a client of `version` gets, over a new connection."""
    host, port = namesrv.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(command.encode(command.JSON, code=105, opaque=1, version=version, ext={"topic": "T"} | ext))
    size = int.from_bytes(await reader.readexactly(4))
    (frame,) = FrameReader().feed(size.to_bytes(4) + await reader.readexactly(size))
    writer.close()
    await writer.wait_closed()
    return command.decode(frame).body


@pytest.mark.parametrize(
    ("version", "ext", "beginning"),
    [
        (Version.V4_9_3, {}, DIALECT),
        (317, {}, DIALECT),
        (Version.V4_9_4, {}, STRICT),
        (Version.V5_5_0, {}, STRICT),
        (121, {"acceptStandardJsonOnly": "true"}, STRICT),
        (121, {"acceptStandardJsonOnly": "false"}, DIALECT),
    ],
)
async def test_the_json_dialect_depends_on_the_version_of_the_client(
    namesrv: NamesrvFixture, version: int, ext: dict[str, str], beginning: bytes
) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)

    assert (await route_for(namesrv, version, **ext)).startswith(beginning)


async def test_a_route_is_encoded_once_per_change(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)
    encoded_routes = namesrv.server.table.topics["T"].encoded_routes
    await namesrv.route("T")
    encoded = encoded_routes[True]

    await namesrv.route("T")
    await broker.register(*STANDARD_TOPICS)
    await broker.heartbeat()
    assert encoded_routes[True] is encoded

    await namesrv.broker(broker_id=1, address="10.0.0.6:10911").register(*STANDARD_TOPICS)
    assert not encoded_routes


async def test_a_zone_route_has_its_own_brokers_and_those_without_a_master(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("here", address="10.0.0.1:1").register(*STANDARD_TOPICS, zone="Z1", filter_servers=["f:1"])
    await namesrv.broker("there", address="10.0.0.2:1").register(*STANDARD_TOPICS, zone="Z2", filter_servers=["f:2"])
    await namesrv.broker("orphan", 1, "10.0.0.3:1").register(*STANDARD_TOPICS, zone="Z2")

    route = await namesrv.route("T", zone_mode=True, zone_name="z1")

    assert {data.broker_name for data in route.broker_datas} == {"here", "orphan"}
    assert {data.broker_name for data in route.queue_datas} == {"here", "orphan"}
    assert route.filter_server_table == {"10.0.0.1:1": ["f:1"]}
    assert len((await namesrv.route("T", zone_mode=False, zone_name="z1")).broker_datas) == 3


async def test_a_slave_is_shown_as_master_if_supported_enabled_and_read_only(namesrv: NamesrvFixture) -> None:
    master = namesrv.broker()
    await master.register(*STANDARD_TOPICS, enable_acting_master=True)
    slave = namesrv.broker(broker_id=2, address="10.0.0.6:10911")
    await slave.register(*STANDARD_TOPICS, enable_acting_master=True)

    await master.disconnect()
    assert await namesrv.queues("T") == (4, 4, 4)
    assert await namesrv.addresses() == {2: "10.0.0.6:10911"}

    await namesrv.call(h.UpdateNamesrvConfig(), b"supportActingMaster=true")
    assert await namesrv.addresses() == {0: "10.0.0.6:10911"}

    await slave.register(*STANDARD_TOPICS, counter=2, enable_acting_master=True)
    assert await namesrv.queues("T") == (4, 4, 4)


async def test_the_members_of_a_group_are_listed(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    await namesrv.broker(broker_id=1, address="10.0.0.6:10911").register(*STANDARD_TOPICS)

    known = await namesrv.call(h.GetBrokerMemberGroup(cluster_name="C", broker_name="broker-a"))
    unknown = await namesrv.call(h.GetBrokerMemberGroup(cluster_name="C", broker_name="unknown"))

    group = BrokerMemberGroupBody.decode(known.body).broker_member_group
    assert group is not None
    assert group.broker_addrs == {0: "10.0.0.5:10911", 1: "10.0.0.6:10911"}
    assert unknown.body == b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"unknown","cluster":"C"}}'


async def test_topics_are_listed_by_cluster_and_by_unit_flags(namesrv: NamesrvFixture) -> None:
    plain, unit, sub, both = topic("plain"), topic("unit", flag=1), topic("sub", flag=2), topic("both", flag=3)
    await namesrv.broker("broker-a", cluster="C").register(plain, unit, sub, both)
    await namesrv.broker("broker-b", address="10.0.0.7:10911", cluster="D").register(plain, topic("only-d"))

    assert await namesrv.topics(h.GetTopicsByCluster(cluster="D")) == {"plain", "only-d"}
    assert await namesrv.topics(h.GetTopicsByCluster(cluster="nowhere")) == set()
    assert await namesrv.topics(h.GetUnitTopicList()) == {"unit", "both"}
    assert await namesrv.topics(h.GetHasUnitSubTopicList()) == {"sub", "both"}
    assert await namesrv.topics(h.GetHasUnitSubUnunitTopicList()) == {"sub"}


async def test_system_topics_are_the_names_of_clusters_and_brokers(namesrv: NamesrvFixture) -> None:
    assert (await namesrv.call(h.GetSystemTopicListFromNs())).body == b'{"topicList":[]}'
    await namesrv.broker().register(*STANDARD_TOPICS)

    found = TopicList.decode((await namesrv.call(h.GetSystemTopicListFromNs())).body)

    assert (set(found.topic_list), found.broker_addr) == ({"C", "broker-a"}, "10.0.0.5:10911")


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        ("enableAllTopicList", h.GetAllTopicListFromNameserver()),
        ("enableTopicList", h.GetTopicsByCluster(cluster="C")),
        ("enableTopicList", h.GetUnitTopicList()),
        ("enableTopicList", h.GetHasUnitSubTopicList()),
        ("enableTopicList", h.GetHasUnitSubUnunitTopicList()),
    ],
)
async def test_topic_lists_can_be_switched_off(namesrv: NamesrvFixture, key: str, request_: Request[Empty]) -> None:
    await namesrv.call(h.UpdateNamesrvConfig(), f"{key}=false".encode())

    with pytest.raises(SystemFailure) as refused:
        await namesrv.call(request_)

    assert refused.value.remark == "disable"


async def test_routes_are_refused_during_the_configured_wait_after_startup(namesrv: NamesrvFixture) -> None:
    await namesrv.call(h.UpdateNamesrvConfig(), b"needWaitForService=true\nwaitSecondsForService=45")
    await namesrv.broker().register(*STANDARD_TOPICS)
    with pytest.raises(AnswerError, match="name server not ready"):
        await namesrv.route("T")

    await namesrv.clock.advance(45)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_fifty_thousand_topics_on_a_hundred_brokers(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    brokers = [namesrv.broker(f"broker-{n}", address=f"10.0.0.{n}:10911") for n in range(100)]
    for n, broker in enumerate(brokers):
        await broker.register(*(topic(f"topic-{n}-{m}") for m in range(500)))

    assert len(await namesrv.topics()) == 50_000
    assert await namesrv.queues("topic-99-499", "broker-99") == (4, 4, 6)


async def test_a_cached_route_is_invalidated_by_every_change(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)
    assert await namesrv.queues("T") == (4, 4, 6)
    assert await namesrv.queues("T") == (4, 4, 6)

    await broker.register(topic("T", 8), topic("TBW102", 8, perm=7), counter=2)
    assert await namesrv.queues("T") == (8, 8, 6)
    await namesrv.call(h.WipeWritePermOfBroker(broker_name="broker-a"))
    assert await namesrv.queues("T") == (8, 8, 4)
    await namesrv.call(h.DeleteTopicInNamesrv(topic="T"))
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")
    await broker.register(topic("T", 16), topic("TBW102", 8, perm=7), counter=3)
    assert await namesrv.queues("T") == (16, 16, 6)
    await broker.unregister()
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")
