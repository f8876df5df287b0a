"""Topics, as an operator makes and sees them."""

import pytest

from kerolox.admin import AdminClient, UnknownBroker, UnknownCluster
from kerolox.errors import TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import Perm
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, numbered, prepared, send


async def test_a_topic_is_made_on_all_brokers_of_a_cluster(admin_of_two: AdminClient) -> None:
    made = await admin_of_two.topics.create(TOPIC, cluster="DefaultCluster", read_queues=3, write_queues=2)

    assert made == ["broker-a", "broker-b"]
    route = await admin_of_two.topics.route(TOPIC)
    assert [(queue.broker_name, queue.queue_id) for queue in route.write_queues] == [
        ("broker-a", 0),
        ("broker-a", 1),
        ("broker-b", 0),
        ("broker-b", 1),
    ]
    assert len(route.read_queues) == 6
    assert await admin_of_two.topics.clusters(TOPIC) == ["DefaultCluster"]


async def test_a_topic_is_made_on_one_broker_by_name_or_by_address(
    admin_of_two: AdminClient, two_brokers: Cluster
) -> None:
    assert await admin_of_two.topics.create("one", broker="broker-b") == ["broker-b"]
    assert await admin_of_two.topics.create("other", broker=two_brokers.brokers[0].address) == ["broker-a"]

    assert list(await admin_of_two.topics.configs("one")) == ["broker-b"]
    assert list(await admin_of_two.topics.configs("other")) == ["broker-a"]


async def test_an_unknown_place_is_named_with_those_that_are_known(admin: AdminClient) -> None:
    with pytest.raises(UnknownCluster, match=r"'elsewhere' is not known. Known: DefaultCluster"):
        await admin.topics.create(TOPIC, cluster="elsewhere")
    with pytest.raises(UnknownBroker, match=r"'broker-z' is not known. Known: broker-a"):
        await admin.topics.create(TOPIC, broker="broker-z")
    with pytest.raises(MessageIllegal):
        await admin.topics.create("not a name")


async def test_an_update_changes_what_is_given_and_nothing_else(admin: AdminClient) -> None:
    await admin.topics.create(TOPIC, read_queues=4, write_queues=4, attributes={"message.type": "FIFO"})

    assert await admin.topics.update(TOPIC, perm=Perm.READ, attributes={"reserve.time": "1000"}) == ["broker-a"]

    config = (await admin.topics.configs(TOPIC))["broker-a"]
    assert (config.perm, config.read_queue_nums, config.write_queue_nums) == (Perm.READ, 4, 4)
    assert config.attributes == {"message.type": "FIFO", "reserve.time": "1000"}
    assert (await admin.topics.route(TOPIC)).write_queues == ()
    await admin.topics.update(TOPIC, write_queues=6, attributes={"reserve.time": None})
    config = (await admin.topics.configs(TOPIC))["broker-a"]
    assert (config.perm, config.write_queue_nums) == (Perm.READ, 6)
    assert config.attributes == {"message.type": "FIFO"}


async def test_what_is_not_there_can_not_be_updated(admin: AdminClient) -> None:
    with pytest.raises(TopicNotFound, match="broker-a"):
        await admin.topics.update(TOPIC, read_queues=1)


async def test_a_deleted_topic_is_gone_from_brokers_and_name_servers(admin: AdminClient, cluster: Cluster) -> None:
    await admin.topics.create(TOPIC, is_ordered=True)
    await send(cluster, *numbered(3))

    await admin.topics.delete(TOPIC)

    assert TOPIC not in await admin.topics.names()
    assert TOPIC not in await admin.topics.all_configs("broker-a")
    assert await admin.topics.order(TOPIC) is None
    with pytest.raises(TopicNotFound):
        await admin.topics.route(TOPIC)
    await admin.topics.delete(TOPIC)


async def test_an_ordered_topic_keeps_the_order_of_its_queues(admin_of_two: AdminClient) -> None:
    await admin_of_two.configuration.update_name_servers({"orderMessageEnable": "true"})

    await admin_of_two.topics.create(TOPIC, is_ordered=True, read_queues=4, write_queues=4)

    assert await admin_of_two.topics.order(TOPIC) == {"broker-a": 4, "broker-b": 4}
    assert (await admin_of_two.topics.route(TOPIC)).data.order_topic_conf == "broker-a:4;broker-b:4"
    await admin_of_two.topics.create(TOPIC, broker="broker-b", is_ordered=True, read_queues=2, write_queues=2)
    assert await admin_of_two.topics.order(TOPIC) == {"broker-a": 4, "broker-b": 2}
    await admin_of_two.topics.set_order(TOPIC, {"broker-a": 1})
    assert await admin_of_two.topics.order(TOPIC) == {"broker-a": 1}
    await admin_of_two.topics.set_order(TOPIC, None)
    assert await admin_of_two.topics.order(TOPIC) is None


async def test_topics_are_listed_by_cluster_and_the_systems_own_apart(admin: AdminClient) -> None:
    await admin.topics.create(TOPIC)

    assert TOPIC in await admin.topics.names()
    assert TOPIC in await admin.topics.names(cluster="DefaultCluster")
    system = await admin.topics.system_names()
    assert "RMQ_SYS_TRANS_HALF_TOPIC" in system
    assert TOPIC not in system


async def test_the_status_says_where_each_queue_begins_and_ends(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)

    status = await admin.topics.status(TOPIC)

    assert list(status) == [QUEUE, MessageQueue("broker-a", 1, TOPIC)]
    assert [(offset.min_offset, offset.max_offset) for offset in status.values()] == [(0, 3), (0, 0)]
    assert status[QUEUE].last_update_timestamp > 0


async def test_groups_that_consume_a_topic_are_known_while_online_and_after(
    admin: AdminClient, cluster: Cluster
) -> None:
    await prepared(admin, cluster, 1)
    assert await admin.topics.groups(TOPIC) == []

    async with consuming(cluster, group="live"):
        assert await admin.topics.groups(TOPIC) == ["live"]
    await admin.offsets.commit(GROUP, QUEUE, 1)
    assert await admin.topics.groups(TOPIC) == [GROUP]


async def test_a_table_of_topics_has_a_version(admin: AdminClient) -> None:
    before = await admin.topics.table("broker-a")
    await admin.topics.create("orders")
    after = await admin.topics.table("broker-a")

    assert after.data_version.counter > before.data_version.counter
    assert after.topic_config_table == await admin.topics.all_configs("broker-a")
