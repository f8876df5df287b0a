"""The route table: which brokers are alive, and which topics they carry."""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kerolox.errors import SystemFailure
from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.tables import MASTER_ID, BrokerAddress, BrokerGroup, LiveBroker, Topic
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.routes import QueueData
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfigTable
from kerolox.wire.headers.namesrv import BrokerRegistered, NotifyMinBrokerIdChange, RegisterBroker

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 255
TOPIC_LENGTH_MAX = 1024
FILTER_SERVERS_MAX = 256

_READ_WRITE = int(Perm.READ | Perm.WRITE)
_NOT_WRITE = int(~Perm.WRITE)


class Notice(NamedTuple):
    """What the members of a group must be told when another of them has become the first."""

    addresses: list[str]
    change: NotifyMinBrokerIdChange


class RouteTable:
    """Everything brokers have registered. Nothing here waits, so every change is whole."""

    def __init__(self, config: NamesrvConfig, clock: Clock, *, notify: Callable[[Notice], None] | None = None) -> None:
        self._config = config
        self._clock = clock
        self._notify = notify or (lambda notice: None)
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, BrokerGroup] = {}
        self.clusters: dict[str, dict[str, BrokerGroup]] = {}
        self.live: dict[BrokerAddress, LiveBroker] = {}
        self._by_channel: dict[object, set[BrokerAddress]] = {}

    # Registration

    def renew(self, header: RegisterBroker, body: bytes, channel: object) -> BrokerRegistered | None:
        """Takes a registration that repeats the broker's last to the letter, which most do, for a heartbeat.

        None if it is another, or if something has changed since: then it must be read.
        """
        where = BrokerAddress(header.cluster_name, header.broker_addr)
        live = self.live.get(where)
        # The header has a checksum of the body; only if it is the same is the body worth a look.
        if live is None or live.header != header or live.said != (hash(body), self.groups[live.group].revision):
            return None
        live.updated_at_millis = self._clock.millis()
        if live.channel is not channel:
            self._move(where, live, channel)
        return self._answer_to(header)

    def register(
        self, header: RegisterBroker, body: RegisterBrokerBody, channel: object, *, said: int | None = None
    ) -> BrokerRegistered:
        """Takes in what a broker says of itself and returns who its master is, if it is a slave.

        SystemFailure if a broker that has not registered yet brings exactly one topic: that is an increment
        that has overtaken the full registration. `said` is the hash of the body as it came.
        """
        where = BrokerAddress(header.cluster_name, header.broker_addr)
        self._check_bounds(where, header, body)
        self._leave_other_group(where, header.broker_name)
        table = body.topic_config_serialize_wrapper
        group = self._group(header)
        is_old_version = header.enable_acting_master is None
        self._describe(group, bool(header.enable_acting_master), header.zone_name)
        min_id_before = group.min_id or 0
        self._forget_other_ids(group, header)
        if self._is_outdated(group, header, table.data_version):
            self._forget_live(where)
            return BrokerRegistered()
        is_first = header.broker_id not in group.addresses
        if is_first and len(table.topic_config_table) == 1:
            self._drop_if_empty(group)
            raise SystemFailure("register broker failed")
        if group.addresses.get(header.broker_id) != header.broker_addr:
            group.addresses[header.broker_id] = header.broker_addr
            group.has_changed()
        is_master = header.broker_id == MASTER_ID
        is_prime_slave = not is_old_version and not is_master and header.broker_id == group.min_id
        if is_master or is_prime_slave:
            known = self.live.get(where)
            has_changed = is_first or known is None or known.data_version != table.data_version
            perm_mask = _NOT_WRITE if is_prime_slave and group.enable_acting_master else -1
            self._take_topics(group, table, has_changed, perm_mask)
        self._keep_alive(where, header, body, channel, said)
        if self._config.notify_min_broker_id_changed and header.broker_id < min_id_before:
            self._announce(group, ha_address=header.ha_server_addr)
        return self._answer_to(header)

    def _check_bounds(self, where: BrokerAddress, header: RegisterBroker, body: RegisterBrokerBody) -> None:
        """Refuses what is too much before anything is changed."""
        filter_servers = body.filter_server_list or []
        names = [header.broker_name, *where, header.ha_server_addr, header.zone_name or "", *filter_servers]
        if max(map(len, names)) > NAME_LENGTH_MAX or not header.broker_name or not all(where):
            raise SystemFailure(
                f"names of brokers, addresses, clusters and zones have 1 to {NAME_LENGTH_MAX} characters"
            )
        if len(filter_servers) > FILTER_SERVERS_MAX:
            raise SystemFailure(f"{len(filter_servers)} filter servers, at most {FILTER_SERVERS_MAX} allowed")
        if where not in self.live and len(self.live) >= self._config.broker_nums_max:
            raise SystemFailure(f"{len(self.live)} brokers are registered, at most brokerNumsMax allowed")
        configs = body.topic_config_serialize_wrapper.topic_config_table.values()
        self._check_topics([config.topic_name for config in configs if config.topic_name not in self.topics])

    def _check_topics(self, names: list[str]) -> None:
        for name in names:
            if not 0 < len(name) <= TOPIC_LENGTH_MAX:
                raise SystemFailure(f"a topic name of {len(name)} characters, from 1 to {TOPIC_LENGTH_MAX} allowed")
        if len(self.topics) + len(names) > self._config.topic_nums_max:
            raise SystemFailure(f"{len(self.topics)} topics are registered, at most topicNumsMax allowed")

    def _leave_other_group(self, where: BrokerAddress, group_name: str) -> None:
        """A process is in one group: one that comes back under a new name leaves the old."""
        live = self.live.get(where)
        if live is not None and live.group != group_name:
            self.unregister(where, live.group)

    def _group(self, header: RegisterBroker) -> BrokerGroup:
        group = self.groups.get(header.broker_name)
        if group is None:
            group = BrokerGroup(header.broker_name, header.cluster_name)
            self.groups[header.broker_name] = group
        self.clusters.setdefault(header.cluster_name, {})[header.broker_name] = group
        return group

    @staticmethod
    def _describe(group: BrokerGroup, enable_acting_master: bool, zone_name: str | None) -> None:
        if (group.enable_acting_master, group.zone_name) != (enable_acting_master, zone_name):
            group.enable_acting_master, group.zone_name = enable_acting_master, zone_name
            group.has_changed()

    @staticmethod
    def _forget_other_ids(group: BrokerGroup, header: RegisterBroker) -> None:
        """An address has one id: a slave that became the master is no longer a slave."""
        for broker_id, address in list(group.addresses.items()):
            if address == header.broker_addr and broker_id != header.broker_id:
                del group.addresses[broker_id]
                group.has_changed()

    def _is_outdated(self, group: BrokerGroup, header: RegisterBroker, version: DataVersion) -> bool:
        """Whether another address holds this id with a newer state: the registration is of a deposed master."""
        holder = group.addresses.get(header.broker_id)
        if holder is None or holder == header.broker_addr:
            return False
        live = self.live.get(BrokerAddress(header.cluster_name, holder))
        if live is None or live.data_version.state_version <= version.state_version:
            return False
        log.warning("ignored %s of %s, as %s has a newer state", header.broker_addr, group.name, holder)
        return True

    def _take_topics(self, group: BrokerGroup, table: TopicConfigTable, has_changed: bool, perm_mask: int) -> None:
        mappings = table.topic_queue_mapping_info_map or {}
        configs = table.topic_config_table
        if self._config.delete_topic_with_broker_registration and not mappings:
            for gone in [topic for name, topic in group.topics.items() if name not in configs]:
                self._remove_queues(gone, group)
        name, known, topics = group.name, group.topics, self.topics
        topic: Topic | None
        for config in configs.values():
            topic_name = config.topic_name
            perm = config.perm & perm_mask
            topic = known.get(topic_name)
            if topic is not None:
                queues = topic.queues[name]
                if not has_changed or (
                    queues.read_queue_nums == config.read_queue_nums
                    and queues.write_queue_nums == config.write_queue_nums
                    and queues.perm == perm
                    and queues.topic_sys_flag == config.topic_sys_flag
                ):
                    continue
            else:
                topic = known[topic_name] = topics.get(topic_name) or self._new_topic(topic_name)
            topic.queues[name] = QueueData(
                name, config.read_queue_nums, config.write_queue_nums, perm, config.topic_sys_flag
            )
            topic.answers.clear()
        if has_changed:
            for topic_name, mapping in mappings.items():
                topic = topics.get(topic_name)
                if topic is not None:
                    topic.mappings = (topic.mappings or {}) | {name: mapping}
                    topic.answers.clear()

    def _new_topic(self, name: str) -> Topic:
        topic = self.topics[name] = Topic(name)
        return topic

    def _keep_alive(
        self,
        where: BrokerAddress,
        header: RegisterBroker,
        body: RegisterBrokerBody,
        channel: object,
        said: int | None,
    ) -> None:
        group = self.groups[header.broker_name]
        previous = self.live.get(where)
        filter_servers = previous.filter_servers if previous is not None else []
        if body.filter_server_list is not None and body.filter_server_list != filter_servers:
            filter_servers = body.filter_server_list
            group.has_changed()
        if previous is None:
            log.info("broker %s of group %s registered", where.address, header.broker_name)
        else:
            self._forget_live(where)
        self.live[where] = LiveBroker(
            group=header.broker_name,
            header=header,
            said=(said, group.revision),
            updated_at_millis=self._clock.millis(),
            data_version=body.topic_config_serialize_wrapper.data_version,
            channel=channel,
            filter_servers=filter_servers,
        )
        self._by_channel.setdefault(channel, set()).add(where)

    def _answer_to(self, header: RegisterBroker) -> BrokerRegistered:
        """Says who the master is, if it lives and is not the asker itself."""
        address = self.groups[header.broker_name].addresses.get(MASTER_ID)
        if header.broker_id == MASTER_ID or address is None:
            return BrokerRegistered()
        live = self.live.get(BrokerAddress(header.cluster_name, address))
        if live is None:
            return BrokerRegistered()
        return BrokerRegistered(ha_server_addr=live.header.ha_server_addr, master_addr=address)

    # Liveness

    def heard_of(self, where: BrokerAddress) -> LiveBroker | None:
        """Notes a heartbeat; returns what is known of the broker, None if it never registered."""
        live = self.live.get(where)
        if live is not None:
            live.updated_at_millis = self._clock.millis()
        return live

    def expired(self) -> list[tuple[BrokerAddress, LiveBroker]]:
        """Returns the brokers that have been silent for longer than they said they would be."""
        now = self._clock.millis()
        return [
            (where, live) for where, live in self.live.items() if live.updated_at_millis + live.timeout_millis < now
        ]

    def channel_closed(self, channel: object) -> None:
        """Removes the brokers that registered on this connection and have not registered on another since."""
        for where in list(self._by_channel.get(channel, ())):
            log.info("broker %s is gone: its connection closed", where.address)
            self.unregister(where, self.live[where].group)

    def unregister(self, where: BrokerAddress, group_name: str) -> None:
        """Removes a broker, and with the last of its group the group and the topics only it had."""
        live = self.live.get(where)
        self._forget_live(where)
        # Where it registered counts, whatever name it gives now.
        group = self.groups.get(group_name if live is None else live.group)
        if group is None:
            return
        min_id_before = group.min_id
        removed = [broker_id for broker_id, address in group.addresses.items() if address == where.address]
        for broker_id in removed:
            del group.addresses[broker_id]
        group.has_changed()
        if not group.addresses:
            self._drop_if_empty(group)
            return
        if group.enable_acting_master and MASTER_ID not in group.addresses:
            for topic in group.topics.values():
                topic.queues[group.name].perm &= _NOT_WRITE
        has_lost_first = min_id_before in removed
        if self._config.notify_min_broker_id_changed and has_lost_first and group.enable_acting_master:
            self._announce(group, offline_address=where.address)

    def _move(self, where: BrokerAddress, live: LiveBroker, channel: object) -> None:
        """Notes that a broker has come back on another connection."""
        self._forget_live(where)
        live.channel = channel
        self.live[where] = live
        self._by_channel.setdefault(channel, set()).add(where)

    def _forget_live(self, where: BrokerAddress) -> None:
        live = self.live.pop(where, None)
        if live is not None:
            registered = self._by_channel[live.channel]
            registered.discard(where)
            if not registered:
                del self._by_channel[live.channel]

    def _drop_if_empty(self, group: BrokerGroup) -> None:
        if group.addresses:
            return
        self.groups.pop(group.name, None)
        for cluster, members in list(self.clusters.items()):
            if members.get(group.name) is group:
                del members[group.name]
                if not members:
                    del self.clusters[cluster]
        for topic in list(group.topics.values()):
            self._remove_queues(topic, group)

    def _announce(
        self, group: BrokerGroup, *, ha_address: str | None = None, offline_address: str | None = None
    ) -> None:
        first = min(group.addresses)
        # Who has just come knows; who stays behind a loss must all be told.
        told = [
            address
            for broker_id, address in group.addresses.items()
            if offline_address is not None or len(group.addresses) == 1 or broker_id != first
        ]
        change = NotifyMinBrokerIdChange(
            min_broker_id=first,
            min_broker_addr=group.addresses[first],
            offline_broker_addr=offline_address,
            ha_broker_addr=ha_address,
        )
        log.info("the first broker of group %s is now %d, telling %s", group.name, first, told)
        self._notify(Notice(told, change))

    # Topics

    def add_topic(self, name: str, queue_datas: Iterable[QueueData]) -> None:
        """Adds the queues of one topic; nothing, if one of their brokers is unknown."""
        queue_datas = list(queue_datas)
        unknown = [queues.broker_name for queues in queue_datas if queues.broker_name not in self.groups]
        if unknown or not queue_datas:
            log.warning("topic %s not registered: unknown brokers %s", name, unknown)
            return
        if name not in self.topics:
            self._check_topics([name])
        topic = self.topics.get(name) or self._new_topic(name)
        for queues in queue_datas:
            topic.queues[queues.broker_name] = queues
            self.groups[queues.broker_name].topics[name] = topic
        topic.answers.clear()

    def delete_topic(self, name: str, cluster: str | None = None) -> None:
        """Forgets a topic, on the brokers of one cluster or on all."""
        topic = self.topics.get(name)
        if topic is None:
            return
        if not cluster:
            members = [self.groups[broker] for broker in topic.queues if broker in self.groups]
        else:
            members = list(self.clusters.get(cluster, {}).values())
        for group in members:
            self._remove_queues(topic, group)

    def set_write_perm(self, broker_name: str, *, is_writable: bool) -> int:
        """Takes the write bit from all queues of a broker, or sets them readable and writable; returns how many."""
        group = self.groups.get(broker_name)
        if group is None:
            return 0
        for topic in group.topics.values():
            queues = topic.queues[broker_name]
            queues.perm = _READ_WRITE if is_writable else queues.perm & _NOT_WRITE
            topic.answers.clear()
        return len(group.topics)

    def forget_answers(self) -> None:
        """Makes every registration be read and every route be encoded anew; for changes that concern them all."""
        for group in self.groups.values():
            group.has_changed()

    def _remove_queues(self, topic: Topic, group: BrokerGroup) -> None:
        topic.queues.pop(group.name, None)
        group.topics.pop(topic.name, None)
        if topic.mappings is not None:
            topic.mappings = {name: mapping for name, mapping in topic.mappings.items() if name != group.name} or None
        group.revision += 1
        topic.answers.clear()
        if not topic.queues and self.topics.get(topic.name) is topic:
            del self.topics[topic.name]
