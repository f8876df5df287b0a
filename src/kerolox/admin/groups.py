"""Consumer groups: create, change, delete, list and inspect them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kerolox.admin.targets import Servers
from kerolox.admin.topics import Topics
from kerolox.client.resource_names import check_group, dlq_topic, retry_topic
from kerolox.errors import GroupNotFound
from kerolox.wire.bodies.clients import MessageRequestMode
from kerolox.wire.bodies.groups import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.headers import broker as b
from kerolox.wire.headers.clients import SetMessageRequestMode


class Groups:
    def __init__(self, servers: Servers, topics: Topics) -> None:
        self._servers = servers
        self._topics = topics

    # Changes

    async def create(
        self, group: str | SubscriptionGroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Create or replace a group on the masters of a cluster, or on one broker; return their names.

        A name stands for a group with RocketMQ's default settings.
        """
        config = SubscriptionGroupConfig(group_name=group) if isinstance(group, str) else group
        check_group(config.group_name)
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, b.UpdateAndCreateSubscriptionGroup(), config.encode()))

    async def update(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        consume_enable: bool | None = None,
        consume_from_min_enable: bool | None = None,
        consume_broadcast_enable: bool | None = None,
        consume_message_orderly: bool | None = None,
        retry_queue_nums: int | None = None,
        retry_max_times: int | None = None,
        broker_id: int | None = None,
        which_broker_when_consume_slowly: int | None = None,
        notify_consumer_ids_changed_enable: bool | None = None,
    ) -> list[str]:
        """Change the given settings and keep the others of each broker; return the names of the brokers.

        In a cluster, only brokers that have the group are changed. Raises GroupNotFound if none has it.
        """
        given = {
            "consume_enable": consume_enable,
            "consume_from_min_enable": consume_from_min_enable,
            "consume_broadcast_enable": consume_broadcast_enable,
            "consume_message_orderly": consume_message_orderly,
            "retry_queue_nums": retry_queue_nums,
            "retry_max_times": retry_max_times,
            "broker_id": broker_id,
            "which_broker_when_consume_slowly": which_broker_when_consume_slowly,
            "notify_consumer_ids_changed_enable": notify_consumer_ids_changed_enable,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        # Brokers interpret attributes in this request as changes, so the existing ones must not be sent back.
        changes["attributes"] = {}
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        found = await self._configs(group, masters)

        async def save(name: str) -> None:
            config = msgspec.structs.replace(found[name], **changes)
            await self._servers.call(masters[name], b.UpdateAndCreateSubscriptionGroup(), config.encode())

        await self._servers.each("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", {name: name for name in found}, save)
        return list(found)

    async def delete(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, has_offsets_cleaned: bool = False
    ) -> None:
        """Delete a group with its retry topic and dead letter queue from a cluster; or only the group from one broker.

        With `has_offsets_cleaned`, its offsets are deleted too.
        """
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        request = b.DeleteSubscriptionGroup(
            group_name=group, clean_offset=has_offsets_cleaned, remove_offset=has_offsets_cleaned
        )
        await self._servers.ask_brokers(masters, request)
        if broker is None:
            for topic in (retry_topic(group), dlq_topic(group)):
                await self._topics.delete(topic, cluster=cluster)

    async def set_readable(self, group: str, topic: str, *, is_readable: bool, broker: str) -> bool:
        """Allow or forbid a group to read a topic on a broker; return whether it may. Needs a 5.x broker."""
        request = b.UpdateAndGetGroupForbidden(group=group, topic=topic, readable=is_readable)
        reply = await self._servers.call(await self._servers.address(broker), request)
        return GroupForbidden.decode(reply.body).readable

    async def set_request_mode(
        self,
        group: str,
        topic: str,
        *,
        is_popping: bool,
        shared_queues: int = 0,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Make the 5.x consumers of a group pop or pull a topic; return the names of the brokers.

        `shared_queues` is the number of clients that may pop from one queue; 0 means all.
        """
        mode = MessageRequestMode(
            consumer_group=group, topic=topic, mode="POP" if is_popping else "PULL", pop_share_queue_num=shared_queues
        )
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, SetMessageRequestMode(), mode.encode()))

    # Queries

    async def names(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Return the names of all groups, including system groups; by default of all clusters."""
        if cluster is None and broker is None:
            masters = await self._servers.all_masters()
        else:
            masters = await self._servers.masters(cluster=cluster, broker=broker)
        tables = await self._servers.each("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", masters, self._table)
        return sorted({name for table in tables.values() for name in table})

    async def configs(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """Return broker → settings of a group; raise GroupNotFound if no broker has it."""
        return await self._configs(group, await self._servers.all_masters())

    async def all_configs(self, broker: str) -> dict[str, SubscriptionGroupConfig]:
        """Return group → settings of all groups of a broker."""
        return await self._table(await self._servers.address(broker))

    async def table(self, broker: str) -> SubscriptionGroupTable:
        """Return the settings of all groups of a broker, with the version of the table."""
        return await self._whole_table(await self._servers.address(broker))

    async def topics(self, group: str) -> list[str]:
        """Return the topics that a group has offsets for. Needs 5.x brokers."""
        brokers = await self._servers.brokers_of_group(group)
        replies = await self._servers.ask_brokers(brokers, b.QueryTopicsByConsumer(group=group))
        return sorted({topic for reply in replies.values() for topic in TopicList.decode(reply.body).topic_list})

    async def _configs(self, group: str, brokers: Mapping[str, str]) -> dict[str, SubscriptionGroupConfig]:
        async def ask(address: str) -> SubscriptionGroupConfig | None:
            # Querying a single group would create it on brokers with autoCreateSubscriptionGroup.
            return (await self._table(address)).get(group)

        found = await self._servers.each("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", brokers, ask)
        configs = {name: config for name, config in found.items() if config is not None}
        if not configs:
            raise GroupNotFound(f"group {group!r} is not known to {', '.join(brokers)}")
        return configs

    async def _table(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        return (await self._whole_table(address)).subscription_group_table

    async def _whole_table(self, address: str) -> SubscriptionGroupTable:
        return SubscriptionGroupTable.decode(
            (await self._servers.call(address, b.GetAllSubscriptionGroupConfig())).body
        )
