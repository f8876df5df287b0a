"""Consumer groups."""

import pytest

from kerolox.admin import AdminClient
from kerolox.errors import ConfigurationError, GroupNotFound
from kerolox.testing import Cluster
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, prepare


async def test_a_group_is_created_with_defaults_or_settings(admin_of_two: AdminClient) -> None:
    assert await admin_of_two.groups.create(GROUP) == ["broker-a", "broker-b"]
    strict = SubscriptionGroupConfig(group_name="strict", retry_max_times=3, consume_broadcast_enable=False)
    assert await admin_of_two.groups.create(strict, broker="broker-b") == ["broker-b"]

    configs = await admin_of_two.groups.configs(GROUP)
    assert [config.retry_max_times for config in configs.values()] == [16, 16]
    assert await admin_of_two.groups.configs("strict") == {"broker-b": strict}
    assert "strict" not in await admin_of_two.groups.names(broker="broker-a")
    assert {GROUP, "strict"} <= set(await admin_of_two.groups.names())
    assert (await admin_of_two.groups.all_configs("broker-b"))["strict"] == strict


async def test_an_invalid_group_name_is_refused(admin: AdminClient) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid name"):
        await admin.groups.create("")


async def test_an_update_changes_only_the_given_settings(admin: AdminClient) -> None:
    await admin.groups.create(SubscriptionGroupConfig(group_name=GROUP, retry_queue_nums=2))

    assert await admin.groups.update(GROUP, consume_enable=False, retry_max_times=1) == ["broker-a"]

    config = (await admin.groups.configs(GROUP))["broker-a"]
    assert (config.consume_enable, config.retry_max_times, config.retry_queue_nums) == (False, 1, 2)


async def test_querying_a_group_does_not_create_it(admin: AdminClient) -> None:
    with pytest.raises(GroupNotFound, match="'nobody' is not known to broker-a"):
        await admin.groups.configs("nobody")
    with pytest.raises(GroupNotFound):
        await admin.groups.update("nobody", retry_max_times=1)

    assert "nobody" not in await admin.groups.names()


async def test_deleting_a_group_deletes_its_retry_topic(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    async with consuming(cluster):
        assert f"%RETRY%{GROUP}" in await admin.topics.names()
    await admin.offsets.commit(GROUP, QUEUE, 0)

    await admin.groups.delete(GROUP, has_offsets_cleaned=True)

    assert GROUP not in await admin.groups.names()
    assert f"%RETRY%{GROUP}" not in await admin.topics.names()
    assert await admin.topics.groups(TOPIC) == []


async def test_topics_of_a_group_are_those_with_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    await admin.offsets.commit(GROUP, QUEUE, 0)

    assert await admin.groups.topics(GROUP) == [TOPIC]


async def test_a_group_can_be_forbidden_to_read_a_topic(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)

    assert await admin.groups.set_readable(GROUP, TOPIC, is_readable=False, broker="broker-a") is False
    assert not cluster.brokers[0].groups.is_readable(GROUP, TOPIC)
    assert await admin.groups.set_readable(GROUP, TOPIC, is_readable=True, broker="broker-a") is True


async def test_the_request_mode_of_a_group_is_set(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)

    assert await admin.groups.set_request_mode(GROUP, TOPIC, is_popping=True) == ["broker-a"]


async def test_the_group_table_has_a_version(admin: AdminClient) -> None:
    before = await admin.groups.table("broker-a")
    await admin.groups.create("shop")
    after = await admin.groups.table("broker-a")

    assert after.data_version.counter > before.data_version.counter
    assert after.subscription_group_table == await admin.groups.all_configs("broker-a")
