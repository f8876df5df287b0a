"""Encodes responses from the route table: routes, clusters and topic lists."""

from functools import partial

from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.entries import MASTER_ID, BrokerAddress, BrokerGroup, Topic
from kerolox.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfigTable
from kerolox.namesrv.route_table import RouteTable
from kerolox.wire.bodies.routes import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from kerolox.wire.bodies.topics import Perm, TopicList, TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.reply import Reply

# Brokers use topics of this name to stay in touch with their group; their routes never show an acting master.
MEMBER_GROUP_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class RouteResponses:
    """Encodes each route once per change, not once per request."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, kv: KVConfigTable) -> None:
        self._config = config
        self._table = table
        self._kv = kv

    def route(self, topic_name: str, *, strict: bool) -> Reply[Empty] | None:
        """Return encoded TopicRouteData, or None if no live broker has the topic."""
        topic = self._table.topics.get(topic_name)
        if topic is None:
            return None
        encoded = topic.encoded_routes.get(strict)
        if encoded is None:
            encoded = topic.encoded_routes[strict] = self._route(topic).encode(strict=strict)
        # Every change of the route clears `encoded_routes`, so the lookup then returns None.
        return Reply(None, encoded, again=partial(topic.encoded_routes.get, strict))

    def route_in_zone(self, topic_name: str, zone: str) -> Reply[Empty] | None:
        """Return the part of the route in `zone`, plus all broker groups without a master (ZoneRouteRPCHook).

        As in Java, it is always encoded in fastjson's dialect, whatever the version of the client.
        """
        topic = self._table.topics.get(topic_name)
        if topic is None:
            return None
        route = self._route(topic)
        kept = [
            broker
            for broker in route.broker_datas
            if MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == zone.lower()
        ]
        names = {broker.broker_name for broker in kept}
        addresses = {address for broker in kept for address in broker.broker_addrs.values()}
        route.broker_datas = kept
        route.queue_datas = [queues for queues in route.queue_datas if queues.broker_name in names]
        route.filter_server_table = {
            address: servers for address, servers in (route.filter_server_table or {}).items() if address in addresses
        }
        return Reply(None, route.encode())

    def _route(self, topic: Topic) -> TopicRouteData:
        groups = [self._table.groups[name] for name in topic.queues]
        route = TopicRouteData(
            broker_datas=[group.data() for group in groups],
            queue_datas=list(topic.queues.values()),
            filter_server_table=self._filter_servers(groups),
            topic_queue_mapping_by_broker=topic.mappings,
        )
        if self._config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, topic.name)
        if self._config.support_acting_master and not topic.name.startswith(MEMBER_GROUP_TOPIC_PREFIX):
            for broker in route.broker_datas:
                _present_acting_master(broker, topic.queues[broker.broker_name])
        return route

    def _filter_servers(self, groups: list[BrokerGroup]) -> dict[str, list[str]]:
        brokers = [BrokerAddress(group.cluster, address) for group in groups for address in group.addresses.values()]
        return {
            broker.address: live.filter_servers
            for broker in brokers
            if (live := self._table.live.get(broker)) is not None and live.filter_servers
        }

    def cluster_info(self) -> bytes:
        return ClusterInfo(
            {name: group.data() for name, group in self._table.groups.items()},
            {name: list(members) for name, members in self._table.clusters.items()},
        ).encode()

    def member_group(self, cluster: str, broker_name: str) -> bytes:
        """Return the live members of a group; an empty group if it is unknown."""
        group = self._table.groups.get(broker_name)
        addresses = {} if group is None else dict(sorted(group.addresses.items()))
        return BrokerMemberGroupBody(BrokerMemberGroup(cluster, broker_name, addresses)).encode()

    def all_topics(self) -> bytes:
        return TopicList(list(self._table.topics)).encode()

    def topics_of_cluster(self, cluster: str) -> bytes:
        members = self._table.clusters.get(cluster, {}).values()
        return TopicList(list(dict.fromkeys(name for group in members for name in group.topics))).encode()

    def system_topics(self) -> bytes:
        """Return the names of clusters and brokers, which are system topics, and the address of one broker."""
        names = {name: None for cluster, members in self._table.clusters.items() for name in (cluster, *members)}
        some = next((next(iter(group.addresses.values())) for group in self._table.groups.values()), None)
        return TopicList(list(names), some).encode()

    def topics_flagged(self, wanted: TopicSysFlag, unwanted: TopicSysFlag | None = None) -> bytes:
        """Return the topics whose first broker set the `wanted` unit flag and not the `unwanted` one."""
        flags = {name: next(iter(topic.queues.values())).topic_sys_flag for name, topic in self._table.topics.items()}
        return TopicList(
            [name for name, flag in flags.items() if flag & wanted and not flag & (unwanted or 0)]
        ).encode()


def _present_acting_master(broker: BrokerData, queues: QueueData) -> None:
    """Show the slave with the lowest id as master, if the group enables it and its queues are not writable."""
    addresses = broker.broker_addrs
    if broker.enable_acting_master and addresses and MASTER_ID not in addresses and not queues.perm & Perm.WRITE:
        acting = addresses.pop(min(addresses))
        broker.broker_addrs = {MASTER_ID: acting} | addresses
