"""What brokers tell the NameServer, beyond the twenty scenarios."""

import pytest

from kerolox.codes import Version
from kerolox.errors import SystemFailure, TopicNotFound
from kerolox.namesrv import NamesrvConfig
from kerolox.wire import command
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topics import TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture, topic, version


async def test_a_compressed_registration_counts_like_a_plain_one(namesrv: NamesrvFixture) -> None:
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


async def test_a_registration_that_cannot_be_read_is_refused(namesrv: NamesrvFixture) -> None:
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="b", compressed=True
    )

    with pytest.raises(SystemFailure, match="Failed to decode RegisterBrokerBody"):
        await namesrv.ask(header, b"this is not zlib")


async def test_a_broker_older_than_3_0_11_registers_its_topics_alone(namesrv: NamesrvFixture) -> None:
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

    await namesrv.ask(header)

    assert (await namesrv.cluster()).broker_addr_table["broker-a"].broker_addrs == {0: "a:1"}
    assert await namesrv.topics() == set()


async def test_a_topic_deleted_here_returns_with_the_next_registration(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)
    await namesrv.ask(h.DeleteTopicInNamesrv(topic="T"))

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


async def test_an_address_under_a_new_name_leaves_its_old_group(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("old").register(*STANDARD_TOPICS)

    await namesrv.broker("new").register(*STANDARD_TOPICS)

    assert set((await namesrv.cluster()).broker_addr_table) == {"new"}


async def test_order_topics_are_told_to_brokers_unless_configured_otherwise(namesrv: NamesrvFixture) -> None:
    await namesrv.ask(h.PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4"))

    told = await namesrv.broker().register(*STANDARD_TOPICS)
    namesrv.config.return_order_topic_config_to_broker = False
    untold = await namesrv.broker().register(*STANDARD_TOPICS)

    assert told.body == b'{"table":{"T":"broker-a:4"}}'
    assert untold.body == b""


async def test_filter_servers_are_kept_returned_and_removed(namesrv: NamesrvFixture) -> None:
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

    await namesrv.ask(header, RegisterBrokerBody(None, table).encode())

    assert (await namesrv.route()).topic_queue_mapping_by_broker == {"broker-a": mapping}


async def test_one_topic_is_registered_for_known_brokers_only(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    known, unknown = QueueData("broker-a", 2, 2, 6), QueueData("stranger", 2, 2, 6)

    await namesrv.ask(h.RegisterTopicInNamesrv(topic="U"), TopicRouteData(queue_datas=[known]).encode())
    await namesrv.ask(h.RegisterTopicInNamesrv(topic="V"), TopicRouteData(queue_datas=[known, unknown]).encode())

    assert await namesrv.queues("U") == (2, 2, 6)
    assert await namesrv.topics() == {"T", "TBW102", "U"}


async def test_deleting_in_a_cluster_leaves_the_topic_elsewhere(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("broker-a", cluster="C").register(*STANDARD_TOPICS)
    await namesrv.broker("broker-b", address="10.0.0.7:10911", cluster="D").register(*STANDARD_TOPICS)

    await namesrv.ask(h.DeleteTopicInNamesrv(topic="T", cluster_name="C"))
    assert [data.broker_name for data in (await namesrv.route("T")).queue_datas] == ["broker-b"]

    await namesrv.ask(h.DeleteTopicInNamesrv(topic="T", cluster_name="D"))
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_names_and_numbers_are_bounded(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
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


async def test_a_repeated_registration_is_not_read_again(namesrv: NamesrvFixture) -> None:
    """Most registrations repeat the last to the letter; they cost no more than a heartbeat."""
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, timeout_millis=10_000)
    said = namesrv.server.table.live
    before = next(iter(said.values()))

    await namesrv.clock.advance(8)
    await broker.register(*STANDARD_TOPICS, timeout_millis=10_000)

    assert next(iter(said.values())) is before
    await namesrv.clock.advance(8)
    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_repeated_registration_on_a_new_connection_moves_the_broker(namesrv: NamesrvFixture) -> None:
    before, after = namesrv.broker(), namesrv.broker()
    await before.register(*STANDARD_TOPICS)
    await after.register(*STANDARD_TOPICS)

    await before.disconnect()

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_slave_hears_of_its_master_although_it_repeats_itself(namesrv: NamesrvFixture) -> None:
    slave, master = namesrv.broker(broker_id=1, address="10.0.0.6:10911"), namesrv.broker()
    await slave.register(*STANDARD_TOPICS)
    await master.register(*STANDARD_TOPICS)

    assert (await slave.register(*STANDARD_TOPICS)).fields.master_addr == "10.0.0.5:10911"
    assert (await slave.register(*STANDARD_TOPICS)).fields.master_addr == "10.0.0.5:10911"


async def test_a_repeated_registration_is_read_when_the_rules_have_changed(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, topic("U"), counter=1)
    await broker.register(*STANDARD_TOPICS, counter=2)
    assert "U" in await namesrv.topics()

    await namesrv.ask(h.UpdateNamesrvConfig(), b"deleteTopicWithBrokerRegistration=true")
    await broker.register(*STANDARD_TOPICS, counter=2)

    assert "U" not in await namesrv.topics()


async def test_a_refused_registration_leaves_nothing_behind(namesrv: NamesrvFixture) -> None:
    """What is in no table of the living would never leave again."""
    with pytest.raises(SystemFailure, match="a topic name of 2000 characters"):
        await namesrv.broker().register(*STANDARD_TOPICS, topic("t" * 2000))

    assert (await namesrv.cluster()).broker_addr_table == {}
    assert await namesrv.topics() == set()


async def test_the_number_of_brokers_is_bounded_within_a_group_too(namesrv: NamesrvFixture) -> None:
    namesrv.config.broker_nums_max = 2
    for number in range(2):
        await namesrv.broker(broker_id=number, address=f"10.0.0.{number}:1").register(*STANDARD_TOPICS)

    with pytest.raises(SystemFailure, match="at most brokerNumsMax"):
        await namesrv.broker(broker_id=2, address="10.0.0.2:1").register(*STANDARD_TOPICS)


async def test_a_broker_leaves_the_group_it_registered_in_whatever_it_says(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker("broker-a")
    await broker.register(*STANDARD_TOPICS)
    broker.name = "somebody else"

    await broker.unregister()

    assert (await namesrv.cluster()).broker_addr_table == {}


async def test_a_large_registration_with_static_topics_is_read(namesrv: NamesrvFixture) -> None:
    """Integer keys without quotes make it fastjson's dialect, of which long documents are otherwise refused."""
    topics = [topic(f"topic-{number}") for number in range(3000)]
    mapping = TopicQueueMappingInfo("topic-0", "__global__", 4, "broker-a", 7, False, {0: 0, 1: 1})
    table = TopicConfigTable(version(1), {config.topic_name: config for config in topics}, None, {"topic-0": mapping})
    body = RegisterBrokerBody(None, table).encode()
    assert b"{0:0,1:1}" in body
    header = h.RegisterBroker(
        broker_id=0, cluster_name="C", broker_addr="a:1", ha_server_addr="a:2", broker_name="broker-a"
    )

    await namesrv.ask(header, body)

    assert len(await namesrv.topics()) == 3000


async def test_queues_with_the_old_spelling_of_their_flag_are_read(namesrv: NamesrvFixture) -> None:
    """Up to 4.8 it was `topicSynFlag`."""
    await namesrv.broker().register(*STANDARD_TOPICS)
    body = b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"topicSynFlag":1,"writeQueueNums":1}]}'

    await namesrv.ask(h.RegisterTopicInNamesrv(topic="old"), body)

    (queues,) = (await namesrv.route("old")).queue_datas
    assert queues.topic_sys_flag == 1
    assert await namesrv.topics(h.GetUnitTopicList()) == {"old"}
