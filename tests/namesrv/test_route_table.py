"""The route table, beyond the twenty scenarios."""

import asyncio

import pytest

from kerolox.codes import Version
from kerolox.errors import SystemFailure, TopicNotFound
from kerolox.namesrv import NamesrvConfig
from kerolox.wire import command
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, crc32
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topic_pieces import DecodedRegistration
from kerolox.wire.bodies.topics import TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture, topic, version


async def test_a_compressed_registration_is_applied(namesrv: NamesrvFixture) -> None:
    table = TopicConfigTable(version(1), {config.topic_name: config for config in STANDARD_TOPICS})
    body = compress(RegisterBrokerBody([], table), Version.V5_5_0)
    broker = namesrv.broker()

    await broker.call(
        h.RegisterBroker(
            broker_id=0,
            cluster_name="C",
            broker_addr="10.0.0.5:10911",
            ha_server_addr="10.0.0.5:10912",
            broker_name="broker-a",
            compressed=True,
        ),
        body,
    )

    assert await namesrv.queues("TBW102") == (8, 8, 7)


async def test_an_undecodable_registration_is_refused(namesrv: NamesrvFixture) -> None:
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="b", compressed=True
    )

    with pytest.raises(SystemFailure, match="Failed to decode RegisterBrokerBody"):
        await namesrv.call(header, b"this is not zlib")


async def test_a_broker_older_than_3_0_11_sends_only_the_topic_table(namesrv: NamesrvFixture) -> None:
    table = TopicConfigTable(version(1), {config.topic_name: config for config in STANDARD_TOPICS})
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )
    frame = command.encode(
        command.JSON, code=header.code, opaque=1, version=Version.V3_0_11 - 1, ext=header.ext(), body=table.encode()
    )
    connection = await namesrv.client.connection(namesrv.address)

    connection.send(frame)
    await namesrv.until(lambda: "T" in namesrv.server.table.topics)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_registration_without_a_body_registers_the_broker_without_topics(namesrv: NamesrvFixture) -> None:
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )

    await namesrv.call(header)

    assert (await namesrv.cluster()).broker_addr_table["broker-a"].broker_addrs == {0: "a:1"}
    assert await namesrv.topics() == set()


async def test_a_deleted_topic_returns_with_the_next_registration(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)
    await namesrv.call(h.DeleteTopicInNamesrv(topic="T"))

    await broker.register(*STANDARD_TOPICS, counter=1)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_topics_are_deleted_with_a_registration_only_when_configured(namesrv: NamesrvFixture) -> None:
    namesrv.config.delete_topic_with_broker_registration = True
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, topic("U"), counter=1)

    await broker.register(*STANDARD_TOPICS, counter=2)

    assert await namesrv.topics() == {"T", "TBW102"}


async def test_a_deposed_master_with_an_older_state_is_ignored(namesrv: NamesrvFixture) -> None:
    await namesrv.broker(address="10.0.0.5:10911").register(*STANDARD_TOPICS, state=2)

    reply = await namesrv.broker(address="10.0.0.9:10911").register(*STANDARD_TOPICS, state=1)

    assert reply.fields == h.BrokerRegistered()
    assert await namesrv.addresses() == {0: "10.0.0.5:10911"}


async def test_registering_under_a_new_broker_name_leaves_the_old_group(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("old").register(*STANDARD_TOPICS)

    await namesrv.broker("new").register(*STANDARD_TOPICS)

    assert set((await namesrv.cluster()).broker_addr_table) == {"new"}


async def test_order_topics_are_returned_to_brokers_unless_disabled(namesrv: NamesrvFixture) -> None:
    await namesrv.call(h.PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4"))

    enabled = await namesrv.broker().register(*STANDARD_TOPICS)
    namesrv.config.return_order_topic_config_to_broker = False
    disabled = await namesrv.broker().register(*STANDARD_TOPICS)

    assert enabled.body == b'{"table":{"T":"broker-a:4"}}'
    assert disabled.body == b""


async def test_filter_servers_are_stored_returned_and_removed(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, filter_servers=["10.0.0.5:30001"])
    assert (await namesrv.route()).filter_server_table == {"10.0.0.5:10911": ["10.0.0.5:30001"]}

    await broker.register(*STANDARD_TOPICS, filter_servers=None)
    assert (await namesrv.route()).filter_server_table == {"10.0.0.5:10911": ["10.0.0.5:30001"]}

    await broker.register(*STANDARD_TOPICS, filter_servers=[])
    assert (await namesrv.route()).filter_server_table == {}


async def test_static_topics_carry_their_mapping(namesrv: NamesrvFixture) -> None:
    mapping = TopicQueueMappingInfo("T", "__global__", 4, "broker-a", 7, False, {0: 0, 1: 1})
    table = TopicConfigTable(
        version(1), {config.topic_name: config for config in STANDARD_TOPICS}, None, {"T": mapping}
    )
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )

    await namesrv.call(header, RegisterBrokerBody(None, table).encode())

    assert (await namesrv.route()).topic_queue_mapping_by_broker == {"broker-a": mapping}


async def test_one_topic_is_registered_for_known_brokers_only(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    known, unknown = QueueData("broker-a", 2, 2, 6), QueueData("unknown", 2, 2, 6)

    await namesrv.call(h.RegisterTopicInNamesrv(topic="U"), TopicRouteData(queue_datas=[known]).encode())
    await namesrv.call(h.RegisterTopicInNamesrv(topic="V"), TopicRouteData(queue_datas=[known, unknown]).encode())

    assert await namesrv.queues("U") == (2, 2, 6)
    assert await namesrv.topics() == {"T", "TBW102", "U"}


async def test_deleting_in_a_cluster_leaves_the_topic_elsewhere(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("broker-a", cluster="C").register(*STANDARD_TOPICS)
    await namesrv.broker("broker-b", address="10.0.0.7:10911", cluster="D").register(*STANDARD_TOPICS)

    await namesrv.call(h.DeleteTopicInNamesrv(topic="T", cluster_name="C"))
    assert [data.broker_name for data in (await namesrv.route("T")).queue_datas] == ["broker-b"]

    await namesrv.call(h.DeleteTopicInNamesrv(topic="T", cluster_name="D"))
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_sizes_and_numbers_are_limited(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    with pytest.raises(SystemFailure, match="have 1 to 255 characters"):
        await namesrv.broker("b" * 300).register(*STANDARD_TOPICS)
    with pytest.raises(SystemFailure, match="have 1 to 255 characters"):
        await namesrv.broker().register(*STANDARD_TOPICS, zone="z" * 300)
    with pytest.raises(SystemFailure, match="300 filter servers"):
        await namesrv.broker().register(*STANDARD_TOPICS, filter_servers=["f:1"] * 300)
    config.topic_nums_max = 2
    with pytest.raises(SystemFailure, match="at most topicNumsMax"):
        await namesrv.broker().register(*STANDARD_TOPICS, topic("one-more"))
    config.broker_nums_max = 0
    with pytest.raises(SystemFailure, match="at most brokerNumsMax"):
        await namesrv.broker("another").register(*STANDARD_TOPICS)


async def test_a_repeated_registration_is_not_decoded_again(namesrv: NamesrvFixture) -> None:
    """Most registrations are identical to the last one; they cost no more than a heartbeat."""
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, timeout_millis=10_000)
    live = namesrv.server.table.live
    before = next(iter(live.values()))

    await namesrv.clock.advance(8)
    await broker.register(*STANDARD_TOPICS, timeout_millis=10_000)

    assert next(iter(live.values())) is before
    await namesrv.clock.advance(8)
    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_repeated_registration_on_a_new_connection_moves_the_broker(namesrv: NamesrvFixture) -> None:
    before, after = namesrv.broker(), namesrv.broker()
    await before.register(*STANDARD_TOPICS)
    await after.register(*STANDARD_TOPICS)

    await before.disconnect()

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_repeated_registration_of_a_slave_returns_its_new_master(namesrv: NamesrvFixture) -> None:
    slave, master = namesrv.broker(broker_id=1, address="10.0.0.6:10911"), namesrv.broker()
    await slave.register(*STANDARD_TOPICS)
    await master.register(*STANDARD_TOPICS)

    assert (await slave.register(*STANDARD_TOPICS)).fields.master_addr == "10.0.0.5:10911"
    assert (await slave.register(*STANDARD_TOPICS)).fields.master_addr == "10.0.0.5:10911"


async def test_a_repeated_registration_is_decoded_again_after_a_configuration_change(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, topic("U"), counter=1)
    await broker.register(*STANDARD_TOPICS, counter=2)
    assert "U" in await namesrv.topics()

    await namesrv.call(h.UpdateNamesrvConfig(), b"deleteTopicWithBrokerRegistration=true")
    await broker.register(*STANDARD_TOPICS, counter=2)

    assert "U" not in await namesrv.topics()


async def test_a_repeated_registration_is_applied_again_after_its_group_was_dropped(namesrv: NamesrvFixture) -> None:
    """Another address takes over the id and leaves: then the group is gone, but the first broker is still alive."""
    first, second = namesrv.broker(), namesrv.broker(address="10.0.0.6:10911")
    await first.register(*STANDARD_TOPICS)
    await second.register(*STANDARD_TOPICS)
    await second.unregister()
    assert await namesrv.topics() == set()

    await first.register(*STANDARD_TOPICS)

    assert await namesrv.addresses() == {0: "10.0.0.5:10911"}


async def test_a_refused_registration_leaves_nothing_behind(namesrv: NamesrvFixture) -> None:
    """An entry without a live broker would never be removed."""
    with pytest.raises(SystemFailure, match="topic name of 2000 characters"):
        await namesrv.broker().register(*STANDARD_TOPICS, topic("t" * 2000))

    assert (await namesrv.cluster()).broker_addr_table == {}
    assert await namesrv.topics() == set()


async def test_the_number_of_brokers_is_limited_within_a_group_too(namesrv: NamesrvFixture) -> None:
    namesrv.config.broker_nums_max = 2
    for number in range(2):
        await namesrv.broker(broker_id=number, address=f"10.0.0.{number}:1").register(*STANDARD_TOPICS)

    with pytest.raises(SystemFailure, match="at most brokerNumsMax"):
        await namesrv.broker(broker_id=2, address="10.0.0.2:1").register(*STANDARD_TOPICS)


async def test_unregistering_with_a_wrong_broker_name_removes_the_broker_from_its_group(
    namesrv: NamesrvFixture,
) -> None:
    broker = namesrv.broker("broker-a")
    await broker.register(*STANDARD_TOPICS)
    broker.name = "another"

    await broker.unregister()

    assert (await namesrv.cluster()).broker_addr_table == {}


async def test_a_large_registration_with_static_topics_is_decoded(namesrv: NamesrvFixture) -> None:
    """Unquoted integer keys make it fastjson's dialect; other documents of this size are refused in that dialect."""
    topics = [topic(f"topic-{number}") for number in range(3000)]
    mapping = TopicQueueMappingInfo("topic-0", "__global__", 4, "broker-a", 7, False, {0: 0, 1: 1})
    table = TopicConfigTable(version(1), {config.topic_name: config for config in topics}, None, {"topic-0": mapping})
    body = RegisterBrokerBody(None, table).encode()
    assert b"{0:0,1:1}" in body
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )

    await namesrv.call(header, body)

    assert len(await namesrv.topics()) == 3000


async def test_the_old_spelling_of_the_topic_flag_is_accepted(namesrv: NamesrvFixture) -> None:
    """Release up to 4.8 spell it `topicSynFlag`."""
    await namesrv.broker().register(*STANDARD_TOPICS)
    body = b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"topicSynFlag":1,"writeQueueNums":1}]}'

    await namesrv.call(h.RegisterTopicInNamesrv(topic="old"), body)

    (queues,) = (await namesrv.route("old")).queue_datas
    assert queues.topic_sys_flag == 1
    assert await namesrv.topics(h.GetUnitTopicList()) == {"old"}


async def test_too_many_queues_are_refused_and_the_error_names_the_setting(namesrv: NamesrvFixture) -> None:
    """Clients build a list of the queues of a route."""
    too_many, refusal = 2**31 - 1, r"topic U of 2147483647 queues exceeds the limit of 65536 \(topicQueueNumsMax\)"
    with pytest.raises(SystemFailure, match=refusal):
        await namesrv.broker().register(*STANDARD_TOPICS, topic("U", too_many))
    assert await namesrv.topics() == set()

    await namesrv.broker().register(*STANDARD_TOPICS, topic("most", 65_536))
    route = TopicRouteData(queue_datas=[QueueData("broker-a", 4, too_many, 6)])
    with pytest.raises(SystemFailure, match=refusal):
        await namesrv.call(h.RegisterTopicInNamesrv(topic="U"), route.encode())

    assert await namesrv.topics() == {"T", "TBW102", "most"}


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_a_registration_of_10000_topics_is_applied(namesrv: NamesrvFixture, is_compressed: bool) -> None:
    topics = {f"topic-{number}": topic(f"topic-{number}", number % 8) for number in range(10_000)}
    body = RegisterBrokerBody(["f:1"], TopicConfigTable(version(1), topics))
    data = compress(body, 435) if is_compressed else body.encode()
    header = h.RegisterBroker(
        broker_id=0,
        cluster_name="C",
        broker_addr="a:1",
        ha_server_addr="a:2",
        broker_name="broker-a",
        compressed=is_compressed,
        body_crc32=crc32(data),
    )

    await namesrv.call(header, data)

    assert await namesrv.topics() == topics.keys()
    assert await namesrv.queues("topic-9999") == (7, 7, 6)
    assert (await namesrv.route("topic-0")).filter_server_table == {"a:1": ["f:1"]}


async def test_a_registration_does_not_overtake_a_long_one_of_the_same_broker(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    topics = [topic(f"topic-{number}") for number in range(10_000)]

    await asyncio.gather(
        broker.register(*topics, counter=1), broker.register(topic("topic-9999", 8), topic("new"), counter=2)
    )

    assert await namesrv.queues("topic-9999") == (8, 8, 6)
    assert len(await namesrv.topics()) == 10_001


async def test_a_broker_that_disconnects_during_a_long_registration_leaves_nothing_behind(
    namesrv: NamesrvFixture,
) -> None:
    table = namesrv.server.table
    body = RegisterBrokerBody(None, TopicConfigTable(version(1), {str(i): topic(str(i)) for i in range(5000)}))
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )
    steps = table.register_steps(header, DecodedRegistration(body), channel := object())
    next(steps)
    assert 0 < len(table.topics) < 5000

    table.channel_closed(channel)

    with pytest.raises(SystemFailure, match="was unregistered during its registration"):
        next(steps)
    assert (table.topics, table.groups, table.live) == ({}, {}, {})
