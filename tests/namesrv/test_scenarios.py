"""The twenty scenarios that any NameServer must pass, in their order."""

from typing import cast

import pytest

from kerolox.codes import RequestCode
from kerolox.errors import AnswerError, QueryNotFound, RequestCodeNotSupported, SystemFailure, TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture, topic, version


class UnknownRequest(Request[Empty], code=cast("RequestCode", 9999)):
    """A request that no processor handles."""


async def test_01_a_registered_master_appears_in_route_topic_list_and_cluster(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)

    assert await namesrv.queues("T") == (4, 4, 6)
    assert await namesrv.topics() == {"T", "TBW102"}
    cluster = await namesrv.cluster()
    assert cluster.cluster_addr_table == {"C": ["broker-a"]}
    assert cluster.broker_addr_table["broker-a"].broker_addrs == {0: "10.0.0.5:10911"}


async def test_02_a_registration_with_the_same_data_version_changes_no_topic(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)

    await broker.register(topic("T", 8), topic("TBW102", 8, perm=7), counter=1)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_03_a_registration_with_another_data_version_changes_topics(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)

    await broker.register(topic("T", 8), topic("TBW102", 8, perm=7), counter=2)

    assert await namesrv.queues("T") == (8, 8, 6)


async def test_04_a_topic_missing_from_a_registration_stays(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)

    await broker.register(topic("TBW102", 8, perm=7), topic("U"), counter=2)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_05_a_slave_receives_its_master_and_joins_the_route(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)

    reply = await namesrv.broker(broker_id=1, address="10.0.0.6:10911").register(topic("T", 16), topic("X"))

    assert reply.fields.master_addr == "10.0.0.5:10911"
    assert reply.fields.ha_server_addr == "10.0.0.5:109112"
    assert await namesrv.addresses() == {0: "10.0.0.5:10911", 1: "10.0.0.6:10911"}
    assert await namesrv.queues("T") == (4, 4, 6)


async def test_06_an_old_slave_without_a_master_registers_no_topics(namesrv: NamesrvFixture) -> None:
    reply = await namesrv.broker(broker_id=1).register(*STANDARD_TOPICS, enable_acting_master=None)

    assert (reply.fields.master_addr, reply.fields.ha_server_addr) == (None, None)
    assert await namesrv.topics() == set()


async def test_06_a_new_slave_without_a_master_registers_its_topics(namesrv: NamesrvFixture) -> None:
    """It has the smallest id of its group, so its topics count."""
    reply = await namesrv.broker(broker_id=1).register(*STANDARD_TOPICS, enable_acting_master=False)

    assert (reply.fields.master_addr, reply.fields.ha_server_addr) == (None, None)
    assert await namesrv.topics() == {"T", "TBW102"}


async def test_07_a_slave_that_becomes_the_master_is_listed_once(namesrv: NamesrvFixture) -> None:
    await namesrv.broker(broker_id=1).register(*STANDARD_TOPICS)

    await namesrv.broker(broker_id=0).register(*STANDARD_TOPICS)

    assert await namesrv.addresses() == {0: "10.0.0.5:10911"}


async def test_08_a_disconnected_master_is_removed_and_its_slave_keeps_the_topics(namesrv: NamesrvFixture) -> None:
    master = namesrv.broker()
    await master.register(*STANDARD_TOPICS)
    await namesrv.broker(broker_id=1, address="10.0.0.6:10911").register(*STANDARD_TOPICS)

    await master.disconnect()

    assert await namesrv.addresses() == {1: "10.0.0.6:10911"}
    assert await namesrv.queues("T") == (4, 4, 6)


async def test_09_the_last_broker_of_a_group_removes_cluster_and_topics(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)

    await broker.disconnect()

    with pytest.raises(TopicNotFound, match="No topic route info in name server for the topic: T"):
        await namesrv.route("T")
    cluster = await namesrv.cluster()
    assert (cluster.broker_addr_table, cluster.cluster_addr_table) == ({}, {})


async def test_10_a_broker_without_heartbeats_expires_after_120_seconds_and_its_socket_is_closed(
    namesrv: NamesrvFixture,
) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)
    connection = await broker.client.connection(namesrv.address)
    # Keep the connection in use: idle connections are closed after 120 s as well.
    await namesrv.clock.advance(60)
    await broker.client.call(namesrv.address, h.GetBrokerClusterInfo())
    await namesrv.clock.advance(59)
    assert await namesrv.queues("T") == (4, 4, 6)

    await namesrv.clock.advance(7)

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")
    await connection.closed


async def test_11_wiping_write_permission_clears_it_for_all_topics_of_a_broker(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)

    reply = await namesrv.call(h.WipeWritePermOfBroker(broker_name="broker-a"))

    assert reply.fields.wipe_topic_count == 2
    assert await namesrv.queues("T") == (4, 4, 4)
    assert await namesrv.queues("TBW102") == (8, 8, 5)


async def test_12_a_wiped_permission_stays_wiped_until_the_data_version_changes(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, counter=1)
    await namesrv.call(h.WipeWritePermOfBroker(broker_name="broker-a"))

    await broker.register(*STANDARD_TOPICS, counter=1)
    assert await namesrv.queues("T") == (4, 4, 4)

    await broker.register(*STANDARD_TOPICS, counter=2)
    assert await namesrv.queues("T") == (4, 4, 6)


async def test_13_adding_write_permission_sets_exactly_read_and_write(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)

    reply = await namesrv.call(h.AddWritePermOfBroker(broker_name="broker-a"))

    assert reply.fields.add_topic_count == 2
    assert await namesrv.queues("TBW102") == (8, 8, 6)


async def test_14_data_versions_are_compared(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    unknown = await broker.data_version(1)
    await broker.register(*STANDARD_TOPICS, counter=1)

    equal, other = await broker.data_version(1), await broker.data_version(2)

    assert (unknown.fields.changed, unknown.body) == (True, b"")
    assert (equal.fields.changed, DataVersion.decode(equal.body)) == (False, version(1))
    assert (other.fields.changed, DataVersion.decode(other.body)) == (True, version(1))


async def test_15_the_order_configuration_is_in_the_route_only_when_enabled(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    await namesrv.call(h.PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4"))
    assert (await namesrv.route("T")).order_topic_conf is None

    await namesrv.call(h.UpdateNamesrvConfig(), b"orderMessageEnable=true\n")

    assert (await namesrv.route("T")).order_topic_conf == "broker-a:4"
    await namesrv.call(h.DeleteKVConfig(namespace="ORDER_TOPIC_CONFIG", key="T"))
    assert (await namesrv.route("T")).order_topic_conf is None


async def test_16_a_first_registration_with_exactly_one_topic_is_refused(namesrv: NamesrvFixture) -> None:
    """It is an incremental registration that has overtaken the full one."""
    with pytest.raises(SystemFailure, match="register broker failed"):
        await namesrv.broker().register(topic("T"))

    assert (await namesrv.cluster()).broker_addr_table == {}


async def test_17_a_registration_with_a_wrong_checksum_is_refused(namesrv: NamesrvFixture) -> None:
    with pytest.raises(SystemFailure, match="crc32 not match"):
        await namesrv.broker().register(*STANDARD_TOPICS, body_crc32=12345)


async def test_18_an_unknown_code_is_not_supported(namesrv: NamesrvFixture) -> None:
    with pytest.raises(RequestCodeNotSupported, match=" request type 9999 not supported"):
        await namesrv.call(UnknownRequest())


async def test_19_an_unregistered_broker_is_removed(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS)

    await broker.unregister()

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_20_a_restart_loses_routes_and_keeps_key_values(config: NamesrvConfig) -> None:
    for is_restarted in (False, True):
        async with NameServer(config, clock=ManualClock()) as server:
            namesrv = NamesrvFixture(server, ManualClock())
            if is_restarted:
                with pytest.raises(TopicNotFound):
                    await namesrv.route("T")
                kept = await namesrv.call(h.GetKVConfig(namespace="N", key="k"))
                assert kept.fields.value == "v"
            else:
                await namesrv.broker().register(*STANDARD_TOPICS)
                await namesrv.call(h.PutKVConfig(namespace="N", key="k", value="v"))
            await namesrv.close()


async def test_errors_carry_their_code(namesrv: NamesrvFixture) -> None:
    with pytest.raises(QueryNotFound) as absent:
        await namesrv.call(h.GetKVConfig(namespace="N", key="k"))
    with pytest.raises(AnswerError) as unknown:
        await namesrv.route("nowhere")

    assert (absent.value.code, absent.value.remark) == (22, "No config item, Namespace: N Key: k")
    assert unknown.value.code == 17
