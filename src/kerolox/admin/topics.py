"""Topics: create, change, delete, list and inspect them."""

from collections.abc import Mapping

from kerolox.admin.config import ORDER_NAMESPACE, Configuration
from kerolox.admin.targets import Servers
from kerolox.client.resource_names import check_topic
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.errors import RequestCodeNotSupported, TopicNotFound
from kerolox.wire.bodies.groups import GroupList
from kerolox.wire.bodies.offsets import TopicOffset, TopicStatsTable
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicConfigTable, TopicList
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import namesrv as n

QUEUE_COUNT = 8
READ_WRITE = Perm.READ | Perm.WRITE


class Topics:
    def __init__(self, servers: Servers, configuration: Configuration) -> None:
        self._servers = servers
        self._configuration = configuration

    # Changes

    async def create(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int = QUEUE_COUNT,
        write_queues: int = QUEUE_COUNT,
        perm: Perm = READ_WRITE,
        is_ordered: bool = False,
        attributes: Mapping[str, str] | None = None,
        topic_sys_flag: int = 0,
    ) -> list[str]:
        """Create or replace a topic on the masters of a cluster, or on one broker; return their names.

        A broker may be given by its address, which is then used as its name without asking a NameServer. Attributes,
        such as `message.type`, need 5.x brokers. An ordered topic keeps the list of its queues while brokers are down;
        the list is stored in the KV config of NameServers.
        """
        check_topic(topic)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=read_queues,
            write_queue_nums=write_queues,
            perm=perm,
            order=is_ordered,
            topic_sys_flag=topic_sys_flag,
            attributes={f"+{name}": value for name, value in (attributes or {}).items()},
        )
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        await self._servers.ask_brokers(masters, _update_request(config))
        if is_ordered:
            names = [await self._servers.name(master) for master in masters]
            await self._save_order(topic, dict.fromkeys(names, write_queues), is_whole=broker is None)
        return list(masters)

    async def update(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: Perm | None = None,
        attributes: Mapping[str, str | None] | None = None,
    ) -> list[str]:
        """Change the given settings and keep the others of each broker; return the names of the brokers.

        In a cluster, only brokers that have the topic are changed. An attribute of None is removed.
        """
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        found = await self._configs(topic, masters)
        changes = {
            f"-{name}" if value is None else f"+{name}": value or "" for name, value in (attributes or {}).items()
        }

        async def save(name: str) -> None:
            config = found[name]
            config.read_queue_nums = config.read_queue_nums if read_queues is None else read_queues
            config.write_queue_nums = config.write_queue_nums if write_queues is None else write_queues
            config.perm = config.perm if perm is None else perm
            config.attributes = changes
            await self._servers.call(masters[name], _update_request(config))

        await self._servers.each("UPDATE_AND_CREATE_TOPIC", {name: name for name in found}, save)
        return list(found)

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages from a cluster, and its route; a missing one is not an error."""
        masters = await self._servers.masters(cluster=cluster)
        await self._servers.ask_brokers(masters, b.DeleteTopicInBroker(topic=topic))
        await self._servers.ask_name_servers(n.DeleteTopicInNamesrv(topic=topic, cluster_name=cluster))
        await self._configuration.delete_kv(ORDER_NAMESPACE, topic)

    # Lists

    async def names(self, *, cluster: str | None = None) -> list[str]:
        """Return all topics, or those of a cluster, including system, retry and dead letter topics."""
        request = n.GetAllTopicListFromNameserver() if cluster is None else n.GetTopicsByCluster(cluster=cluster)
        return sorted(TopicList.decode((await self._servers.ask_name_server(request)).body).topic_list)

    async def system_names(self) -> list[str]:
        """Return the system topics; NameServers include the names of clusters and brokers."""
        reply = await self._servers.ask_name_server(n.GetSystemTopicListFromNs())
        names = set(TopicList.decode(reply.body).topic_list)
        masters = await self._servers.all_masters()
        for response in (await self._servers.ask_brokers(masters, b.GetSystemTopicListFromBroker())).values():
            names.update(TopicList.decode(response.body).topic_list)
        return sorted(names)

    # Queries

    async def route(self, topic: str) -> TopicRoute:
        """Return the current route of a topic."""
        return await self._servers.route(topic)

    async def clusters(self, topic: str) -> list[str]:
        """Return the clusters that have the topic."""
        route = await self._servers.route(topic)
        return sorted({data.cluster for data in route.data.broker_datas if data.cluster})

    async def configs(self, topic: str, *, broker: str | None = None) -> dict[str, TopicConfig]:
        """Return broker → settings of a topic, for all brokers or one; raise TopicNotFound if none has it."""
        if broker is not None:
            return await self._configs(topic, {broker: await self._servers.address(broker)})
        return await self._configs(topic, await self._servers.brokers_of(topic))

    async def all_configs(self, broker: str) -> dict[str, TopicConfig]:
        """Return topic → settings of all topics of a broker."""
        return await self._table(await self._servers.address(broker))

    async def table(self, broker: str) -> TopicConfigTable:
        """Return the settings of all topics of a broker, with the version of the table."""
        return await self._whole_table(await self._servers.address(broker))

    async def status(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Return the min and max offset of each queue, and the time of its last message."""
        brokers = await self._servers.brokers_of(topic)
        found: dict[MessageQueue, TopicOffset] = {}
        for reply in (await self._servers.ask_brokers(brokers, b.GetTopicStatsInfo(topic=topic))).values():
            found |= TopicStatsTable.decode(reply.body).offset_table
        return dict(sorted(found.items()))

    async def groups(self, topic: str) -> list[str]:
        """Return the groups that consume a topic: those online, and those with a committed offset."""
        brokers = await self._servers.brokers_of(topic)
        replies = await self._servers.ask_brokers(brokers, b.QueryTopicConsumeByWho(topic=topic))
        return sorted({group for reply in replies.values() for group in GroupList.decode(reply.body).group_list})

    async def _configs(self, topic: str, brokers: Mapping[str, str]) -> dict[str, TopicConfig]:
        async def ask(address: str) -> TopicConfig | None:
            try:
                reply = await self._servers.call(address, b.GetTopicConfig(topic=topic))
                return TopicConfig.decode(reply.body)
            except TopicNotFound:
                return None
            except RequestCodeNotSupported:
                # 4.x brokers can only return the settings of all topics.
                return (await self._table(address)).get(topic)

        found = await self._servers.each("GET_TOPIC_CONFIG", brokers, ask)
        configs = {name: config for name, config in found.items() if config is not None}
        if not configs:
            raise TopicNotFound(f"topic {topic!r} is not known to {', '.join(brokers)}")
        return configs

    async def _table(self, address: str) -> dict[str, TopicConfig]:
        return (await self._whole_table(address)).topic_config_table

    async def _whole_table(self, address: str) -> TopicConfigTable:
        return TopicConfigTable.decode((await self._servers.call(address, b.GetAllTopicConfig())).body)

    # Order

    async def order(self, topic: str) -> dict[str, int] | None:
        """Return broker → number of queues of an ordered topic; None if it is not ordered."""
        text = await self._configuration.kv(ORDER_NAMESPACE, topic)
        return None if text is None else parse_order(text)

    async def set_order(self, topic: str, queues: Mapping[str, int] | None) -> None:
        """Make a topic ordered, with broker → number of queues; None makes it unordered."""
        if queues is None:
            await self._configuration.delete_kv(ORDER_NAMESPACE, topic)
        else:
            await self._save_order(topic, queues, is_whole=True)

    async def _save_order(self, topic: str, queues: Mapping[str, int], *, is_whole: bool) -> None:
        before = {} if is_whole else await self.order(topic) or {}
        text = ";".join(f"{broker}:{count}" for broker, count in (before | dict(queues)).items())
        await self._configuration.set_kv(ORDER_NAMESPACE, topic, text)


def parse_order(text: str) -> dict[str, int]:
    """Parse `broker-a:4;broker-b:4` into broker → number of queues."""
    parts = (part.rpartition(":") for part in text.split(";") if part)
    return {broker: int(count) for broker, _, count in parts if broker and count.isdecimal()}


def _update_request(config: TopicConfig) -> b.UpdateAndCreateTopic:
    attributes = config.attributes or {}
    return b.UpdateAndCreateTopic(
        topic=config.topic_name,
        # Java's tools send this; brokers ignore it in this request.
        default_topic="TBW102",
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=int(config.perm),
        topic_filter_type=config.topic_filter_type or "SINGLE_TAG",
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=",".join(name if name.startswith("-") else f"{name}={value}" for name, value in attributes.items()),
    )
