"""Consumer groups: made, changed, deleted, listed and looked at."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kerolox.admin.servers import Servers
from kerolox.admin.topics import Topics
from kerolox.client.names import check_group, dlq_topic, retry_topic
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

    # Changing

    async def create(
        self, group: str | SubscriptionGroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Makes a group on the masters of a cluster, or on one broker, and returns their names.

        A name alone is a group with the defaults of RocketMQ; one that is there is given these settings.
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
        """Changes what is given, and leaves the rest as each broker has it; returns the names of the brokers.

        Of a cluster, those brokers that have the group; GroupNotFound if none has.
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
        # Those it has would be taken for changes to them.
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
        """Deletes a group from a cluster with its retry topic and its dead letters; or only the group, from one broker.

        With `has_offsets_cleaned` brokers also forget how far it has come.
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
        """Lets a group read a topic on a broker, or not; returns whether it now may. Brokers of 5.x only."""
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
        """Has a group's consumers of 5.x pop from a topic or pull, and returns the brokers that were told.

        `shared_queues` is how many clients may pop from one queue; 0 is all.
        """
        mode = MessageRequestMode(
            consumer_group=group, topic=topic, mode="POP" if is_popping else "PULL", pop_share_queue_num=shared_queues
        )
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, SetMessageRequestMode(), mode.encode()))

    # Looking

    async def names(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Returns the groups that brokers know, the system's own included; of all clusters if none is given."""
        if cluster is None and broker is None:
            masters = await self._servers.all_masters()
        else:
            masters = await self._servers.masters(cluster=cluster, broker=broker)
        tables = await self._servers.each("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", masters, self._table)
        return sorted({name for table in tables.values() for name in table})

    async def configs(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """Returns the settings of a group by broker; GroupNotFound if none has it."""
        return await self._configs(group, await self._servers.all_masters())

    async def all_configs(self, broker: str) -> dict[str, SubscriptionGroupConfig]:
        """Returns the settings of all groups that a broker has, by group."""
        return await self._table(await self._servers.address(broker))

    async def table(self, broker: str) -> SubscriptionGroupTable:
        """Returns the same with the version of the table."""
        return await self._whole_table(await self._servers.address(broker))

    async def topics(self, group: str) -> list[str]:
        """Returns the topics that a group has offsets for. Brokers of 5.x only."""
        brokers = await self._servers.brokers_of_group(group)
        replies = await self._servers.ask_brokers(brokers, b.QueryTopicsByConsumer(group=group))
        return sorted({topic for reply in replies.values() for topic in TopicList.decode(reply.body).topic_list})

    async def _configs(self, group: str, brokers: Mapping[str, str]) -> dict[str, SubscriptionGroupConfig]:
        async def ask(address: str) -> SubscriptionGroupConfig | None:
            # To ask for one group makes it, on brokers that make groups on their own.
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
