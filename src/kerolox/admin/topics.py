"""Topics: made, changed, deleted, listed and looked at."""

from collections.abc import Mapping

from kerolox.admin.configuration import ORDER_NAMESPACE, Configuration
from kerolox.admin.servers import Servers
from kerolox.client.names import check_topic
from kerolox.client.routes import TopicRoute
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

    # Changing

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
        """Makes a topic on the masters of a cluster, or on one broker, and returns their names.

        A topic that is there is given these settings. Attributes, such as `message.type`, are known to 5.x. An ordered
        topic keeps its queues in their order while brokers are away, and what is said of that is kept by NameServers.
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
        await self._servers.ask_brokers(masters, _saving(config))
        if is_ordered:
            await self._order(topic, dict.fromkeys(masters, write_queues), is_whole=broker is None)
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
        """Changes what is given, and leaves the rest as each broker has it; returns the names of the brokers.

        Of a cluster, those brokers that have the topic. An attribute that is None is taken away.
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
            await self._servers.call(masters[name], _saving(config))

        await self._servers.each("UPDATE_AND_CREATE_TOPIC", {name: name for name in found}, save)
        return list(found)

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Deletes a topic and its messages from a cluster, and its route; one that is not there is no error."""
        masters = await self._servers.masters(cluster=cluster)
        await self._servers.ask_brokers(masters, b.DeleteTopicInBroker(topic=topic))
        await self._servers.ask_name_servers(n.DeleteTopicInNamesrv(topic=topic, cluster_name=cluster))
        await self._configuration.delete_kv(ORDER_NAMESPACE, topic)

    # Listing

    async def names(self, *, cluster: str | None = None) -> list[str]:
        """Returns all topics, the system's and the groups' own included; or those of a cluster."""
        request = n.GetAllTopicListFromNameserver() if cluster is None else n.GetTopicsByCluster(cluster=cluster)
        return sorted(TopicList.decode((await self._servers.ask_name_server(request)).body).topic_list)

    async def system_names(self) -> list[str]:
        """Returns the topics that are the system's own; NameServers count the names of clusters and brokers to them."""
        reply = await self._servers.ask_name_server(n.GetSystemTopicListFromNs())
        names = set(TopicList.decode(reply.body).topic_list)
        masters = await self._servers.all_masters()
        for answer in (await self._servers.ask_brokers(masters, b.GetSystemTopicListFromBroker())).values():
            names.update(TopicList.decode(answer.body).topic_list)
        return sorted(names)

    # Looking

    async def route(self, topic: str) -> TopicRoute:
        """Returns where the topic is, as NameServers say it now."""
        return await self._servers.route(topic)

    async def clusters(self, topic: str) -> list[str]:
        """Returns the clusters that have the topic."""
        route = await self._servers.route(topic)
        return sorted({data.cluster for data in route.data.broker_datas if data.cluster})

    async def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Returns the settings of a topic by broker; TopicNotFound if none has it."""
        return await self._configs(topic, await self._servers.brokers_of(topic))

    async def all_configs(self, broker: str) -> dict[str, TopicConfig]:
        """Returns the settings of all topics that a broker has, by topic."""
        return await self._table(await self._servers.address(broker))

    async def table(self, broker: str) -> TopicConfigTable:
        """Returns the same with the version of the table."""
        return await self._whole_table(await self._servers.address(broker))

    async def status(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Returns where each queue begins and ends, and when something was last written to it."""
        brokers = await self._servers.brokers_of(topic)
        found: dict[MessageQueue, TopicOffset] = {}
        for reply in (await self._servers.ask_brokers(brokers, b.GetTopicStatsInfo(topic=topic))).values():
            found |= TopicStatsTable.decode(reply.body).offset_table
        return dict(sorted(found.items()))

    async def groups(self, topic: str) -> list[str]:
        """Returns the groups that consume a topic: those online, and those that have left an offset."""
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
                # 4.x gives all or nothing.
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
        """Returns how many queues of an ordered topic each broker has; None if its order is not kept."""
        text = await self._configuration.kv(ORDER_NAMESPACE, topic)
        return None if text is None else parse_order(text)

    async def set_order(self, topic: str, queues: Mapping[str, int] | None) -> None:
        """Has the order of a topic's queues kept: by broker, how many. None lets it go."""
        if queues is None:
            await self._configuration.delete_kv(ORDER_NAMESPACE, topic)
        else:
            await self._order(topic, queues, is_whole=True)

    async def _order(self, topic: str, queues: Mapping[str, int], *, is_whole: bool) -> None:
        before = {} if is_whole else await self.order(topic) or {}
        text = ";".join(f"{broker}:{count}" for broker, count in (before | dict(queues)).items())
        await self._configuration.set_kv(ORDER_NAMESPACE, topic, text)


def parse_order(text: str) -> dict[str, int]:
    """Returns what `broker-a:4;broker-b:4` says."""
    parts = (part.rpartition(":") for part in text.split(";") if part)
    return {broker: int(count) for broker, _, count in parts if broker and count.isdecimal()}


def _saving(config: TopicConfig) -> b.UpdateAndCreateTopic:
    attributes = config.attributes or {}
    return b.UpdateAndCreateTopic(
        topic=config.topic_name,
        # Java's tools send this name; brokers do not look at it here.
        default_topic="TBW102",
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=int(config.perm),
        topic_filter_type=config.topic_filter_type or "SINGLE_TAG",
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=",".join(name if name.startswith("-") else f"{name}={value}" for name, value in attributes.items()),
    )
