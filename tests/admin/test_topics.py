"""Topics."""

import pytest

from kerolox.admin import AdminClient, UnknownBroker, UnknownCluster
from kerolox.errors import TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import Perm
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, numbered, prepare, send


async def test_a_topic_is_created_on_all_brokers_of_a_cluster(admin_of_two: AdminClient) -> None:
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


async def test_a_topic_is_created_on_one_broker_by_name_or_address(
    admin_of_two: AdminClient, two_brokers: Cluster
) -> None:
    assert await admin_of_two.topics.create("one", broker="broker-b") == ["broker-b"]
    address = two_brokers.brokers[0].address
    assert await admin_of_two.topics.create("other", broker=address) == [address]

    assert list(await admin_of_two.topics.configs("one")) == ["broker-b"]
    assert list(await admin_of_two.topics.configs("other")) == ["broker-a"]


async def test_an_unknown_cluster_or_broker_error_lists_the_known_ones(admin: AdminClient) -> None:
    with pytest.raises(UnknownCluster, match=r"'elsewhere' is not known. Known: DefaultCluster"):
        await admin.topics.create(TOPIC, cluster="elsewhere")
    with pytest.raises(UnknownBroker, match=r"'broker-z' is not known. Known: broker-a"):
        await admin.topics.create(TOPIC, broker="broker-z")
    with pytest.raises(MessageIllegal):
        await admin.topics.create("not a name")


async def test_an_update_changes_only_the_given_settings(admin: AdminClient) -> None:
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


async def test_updating_a_missing_topic_raises(admin: AdminClient) -> None:
    with pytest.raises(TopicNotFound, match="broker-a"):
        await admin.topics.update(TOPIC, read_queues=1)


async def test_deleting_a_topic_removes_it_from_brokers_and_name_servers(admin: AdminClient, cluster: Cluster) -> None:
    await admin.topics.create(TOPIC, is_ordered=True)
    await send(cluster, *numbered(3))

    await admin.topics.delete(TOPIC)

    assert TOPIC not in await admin.topics.names()
    assert TOPIC not in await admin.topics.all_configs("broker-a")
    assert await admin.topics.order(TOPIC) is None
    with pytest.raises(TopicNotFound):
        await admin.topics.route(TOPIC)
    await admin.topics.delete(TOPIC)


async def test_an_ordered_topic_keeps_its_list_of_queues(admin_of_two: AdminClient) -> None:
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


async def test_topics_are_listed_by_cluster_and_system_topics_separately(admin: AdminClient) -> None:
    await admin.topics.create(TOPIC)

    assert TOPIC in await admin.topics.names()
    assert TOPIC in await admin.topics.names(cluster="DefaultCluster")
    system = await admin.topics.system_names()
    assert "RMQ_SYS_TRANS_HALF_TOPIC" in system
    assert TOPIC not in system


async def test_the_status_contains_min_and_max_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    status = await admin.topics.status(TOPIC)

    assert list(status) == [QUEUE, MessageQueue("broker-a", 1, TOPIC)]
    assert [(offset.min_offset, offset.max_offset) for offset in status.values()] == [(0, 3), (0, 0)]
    assert status[QUEUE].last_update_timestamp > 0


async def test_groups_of_a_topic_are_those_online_or_with_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 1)
    assert await admin.topics.groups(TOPIC) == []

    async with consuming(cluster, group="live"):
        assert await admin.topics.groups(TOPIC) == ["live"]
    await admin.offsets.commit(GROUP, QUEUE, 1)
    assert await admin.topics.groups(TOPIC) == [GROUP]


async def test_the_topic_table_has_a_version(admin: AdminClient) -> None:
    before = await admin.topics.table("broker-a")
    await admin.topics.create("orders")
    after = await admin.topics.table("broker-a")

    assert after.data_version.counter > before.data_version.counter
    assert after.topic_config_table == await admin.topics.all_configs("broker-a")
