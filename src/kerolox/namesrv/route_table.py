"""The route table: live brokers and the topics they have (RouteInfoManager)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from kerolox.errors import SystemFailure
from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.entries import MASTER_ID, BrokerAddress, BrokerGroup, LiveBroker, Topic
from kerolox.runtime.clock import Clock
from kerolox.runtime.cooperative import Steps, run_at_once
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.routes import QueueData
from kerolox.wire.bodies.topic_pieces import DecodedRegistration, decode_changes
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.headers.namesrv import BrokerRegistered, NotifyMinBrokerIdChange, RegisterBroker

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 255
TOPIC_LENGTH_MAX = 1024
FILTER_SERVERS_MAX = 256
# Topics of a registration that are processed in one step; other tasks run between the steps.
_TOPICS_PER_STEP = 2000

_READ_WRITE = int(Perm.READ | Perm.WRITE)
_NOT_WRITE = int(~Perm.WRITE)


class Notice(NamedTuple):
    """A change of the minimum broker id of a group, and the addresses to notify."""

    addresses: list[str]
    change: NotifyMinBrokerIdChange


class RouteTable:
    """The registrations of all brokers. No method awaits, so other tasks never see a half-made change.

    Only `register_steps` lets other tasks run, between portions of topics.
    """

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
        """Treat a registration identical to the broker's last one, as most are, as a heartbeat, without decoding it.

        None if it differs, or if its group has changed since: then it must be decoded and applied.
        """
        broker = BrokerAddress(header.cluster_name, header.broker_addr)
        live = self.live.get(broker)
        # Compare headers first: they contain a checksum of the body, so the body is hashed only if that is equal.
        if live is None or live.header != header or not self._is_current(live) or live.body_hash != hash(body):
            return None
        live.last_heartbeat = self._clock.monotonic()
        if live.channel is not channel:
            self._move_to_channel(broker, live, channel)
        return self._response_to(header)

    def decode_changes(self, header: RegisterBroker, body: bytes) -> DecodedRegistration | None:
        """Decode a registration without most of the topics that are unchanged since the broker's last one.

        None if it must be decoded as a whole. The result must be registered at once, before anything else changes.
        """
        live = self.live.get(BrokerAddress(header.cluster_name, header.broker_addr))
        if (
            live is None
            or live.pieces is None
            or live.header != msgspec.structs.replace(header, body_crc32=live.header.body_crc32)
            or not self._is_current(live)
            # To delete the topics that a registration lacks, all its names must be known.
            or self._config.delete_topic_with_broker_registration
        ):
            return None
        return decode_changes(body, live.pieces, self.groups[live.group].topics)

    def _is_current(self, live: LiveBroker) -> bool:
        """Whether nothing else has changed the group of a broker, or its topics, since the broker's registration."""
        group = self.groups.get(live.group)
        return group is not None and group.revision == live.revision

    def register(
        self, header: RegisterBroker, body: RegisterBrokerBody, channel: object, *, body_hash: int | None = None
    ) -> BrokerRegistered:
        """Apply a registration in one go; see `register_steps`."""
        return run_at_once(self.register_steps(header, DecodedRegistration(body), channel, body_hash=body_hash))

    def register_steps(
        self, header: RegisterBroker, decoded: DecodedRegistration, channel: object, *, body_hash: int | None = None
    ) -> Steps[BrokerRegistered]:
        """Apply a registration, and return the address of the master to a slave.

        The first step checks everything and adds the broker; its topics follow in portions. The caller must not start
        another registration of the same broker before they are complete. Topics that `decode_changes` has left out stay
        as they are.

        SystemFailure if the first registration of a broker has exactly one topic: that is an incremental registration
        that has overtaken the full one. `body_hash` is the hash of the encoded body, for `renew`.
        """
        broker = BrokerAddress(header.cluster_name, header.broker_addr)
        body = decoded.body
        self._check_bounds(broker, header, body)
        self._leave_other_group(broker, header.broker_name)
        table = body.topic_config_serialize_wrapper
        group = self._group(header)
        is_old_version = header.enable_acting_master is None
        self._update_group(group, bool(header.enable_acting_master), header.zone_name)
        min_id_before = group.min_id or 0
        self._remove_other_ids(group, header)
        if self._is_outdated(group, header, table.data_version):
            self._remove_live(broker)
            return BrokerRegistered()
        is_first = header.broker_id not in group.addresses
        if is_first and len(table.topic_config_table) == 1:
            self._drop_if_empty(group)
            raise SystemFailure("register broker failed")
        if group.addresses.get(header.broker_id) != header.broker_addr:
            group.addresses[header.broker_id] = header.broker_addr
            group.invalidate()
        is_master = header.broker_id == MASTER_ID
        is_prime_slave = not is_old_version and not is_master and header.broker_id == group.min_id
        known = self.live.get(broker)
        updates_topics = is_master or is_prime_slave
        has_changed = is_first or known is None or known.data_version != table.data_version
        if updates_topics:
            self._remove_missing(group, table)
            if has_changed:
                self._set_writer(group, broker)
        live = self._add_live(broker, header, body, channel, body_hash)
        if updates_topics:
            perm_mask = _NOT_WRITE if is_prime_slave and group.enable_acting_master else -1
            configs = iter(table.topic_config_table.values())
            while portion := list(islice(configs, _TOPICS_PER_STEP)):
                self._update_topics(group, portion, has_changed, perm_mask)
                if len(portion) == _TOPICS_PER_STEP:
                    yield
                    if broker not in self.live or self.groups.get(group.name) is not group:
                        raise SystemFailure("the broker was unregistered during its registration")
                    if has_changed:
                        # Another broker of the group may have registered meanwhile.
                        self._set_writer(group, broker)
            if has_changed:
                self._update_mappings(group, table.topic_queue_mapping_info_map or {})
                live.pieces = decoded.pieces
        if self._config.notify_min_broker_id_changed and header.broker_id < min_id_before:
            self._notify_min_id_change(group, ha_address=header.ha_server_addr)
        return self._response_to(header)

    def _check_bounds(self, broker: BrokerAddress, header: RegisterBroker, body: RegisterBrokerBody) -> None:
        """Refuse a registration that exceeds a limit, before anything is changed."""
        filter_servers = body.filter_server_list or []
        names = [header.broker_name, *broker, header.ha_server_addr, header.zone_name or "", *filter_servers]
        if max(map(len, names)) > NAME_LENGTH_MAX or not header.broker_name or not all(broker):
            raise SystemFailure(
                f"names of brokers, addresses, clusters and zones have 1 to {NAME_LENGTH_MAX} characters"
            )
        if len(filter_servers) > FILTER_SERVERS_MAX:
            raise SystemFailure(f"{len(filter_servers)} filter servers, at most {FILTER_SERVERS_MAX} allowed")
        if broker not in self.live and len(self.live) >= self._config.broker_nums_max:
            raise SystemFailure(f"{len(self.live)} brokers are registered, at most brokerNumsMax allowed")
        configs = body.topic_config_serialize_wrapper.topic_config_table.values()
        for config in configs:
            self._check_queues(config.topic_name, config)
        self._check_topics([config.topic_name for config in configs if config.topic_name not in self.topics])

    def _check_queues(self, topic: str, queues: TopicConfig | QueueData) -> None:
        """Refuse huge numbers of queues: clients build a list of them."""
        count, count_max = max(queues.read_queue_nums, queues.write_queue_nums), self._config.topic_queue_nums_max
        if count > count_max:
            raise SystemFailure(
                f"topic {topic[:TOPIC_LENGTH_MAX]} of {count} queues exceeds the limit of {count_max} "
                "(topicQueueNumsMax)"
            )

    def _check_topics(self, names: list[str]) -> None:
        for name in names:
            if not 0 < len(name) <= TOPIC_LENGTH_MAX:
                raise SystemFailure(f"topic name of {len(name)} characters, 1 to {TOPIC_LENGTH_MAX} are allowed")
        if len(self.topics) + len(names) > self._config.topic_nums_max:
            raise SystemFailure(f"{len(self.topics)} topics are registered, at most topicNumsMax allowed")

    def _leave_other_group(self, broker: BrokerAddress, group_name: str) -> None:
        """Remove a broker from its old group if it now registers under another broker name."""
        live = self.live.get(broker)
        if live is not None and live.group != group_name:
            self.unregister(broker, live.group)

    def _group(self, header: RegisterBroker) -> BrokerGroup:
        group = self.groups.get(header.broker_name)
        if group is None:
            group = BrokerGroup(header.broker_name, header.cluster_name)
            self.groups[header.broker_name] = group
        self.clusters.setdefault(header.cluster_name, {})[header.broker_name] = group
        return group

    @staticmethod
    def _update_group(group: BrokerGroup, enable_acting_master: bool, zone_name: str | None) -> None:
        if (group.enable_acting_master, group.zone_name) != (enable_acting_master, zone_name):
            group.enable_acting_master, group.zone_name = enable_acting_master, zone_name
            group.invalidate()

    @staticmethod
    def _remove_other_ids(group: BrokerGroup, header: RegisterBroker) -> None:
        """Remove other ids of the same address: after a switch the new master is no longer listed as a slave."""
        for broker_id, address in list(group.addresses.items()):
            if address == header.broker_addr and broker_id != header.broker_id:
                del group.addresses[broker_id]
                group.invalidate()

    def _is_outdated(self, group: BrokerGroup, header: RegisterBroker, version: DataVersion) -> bool:
        """Whether another address has this id with a newer state: then a deposed master is registering."""
        holder = group.addresses.get(header.broker_id)
        if holder is None or holder == header.broker_addr:
            return False
        live = self.live.get(BrokerAddress(header.cluster_name, holder))
        if live is None or live.data_version.state_version <= version.state_version:
            return False
        log.warning(
            "ignored the registration of %s in group %s: %s has a newer state", header.broker_addr, group.name, holder
        )
        return True

    def _remove_missing(self, group: BrokerGroup, table: TopicConfigTable) -> None:
        if self._config.delete_topic_with_broker_registration and not table.topic_queue_mapping_info_map:
            configs = table.topic_config_table
            for gone in [topic for name, topic in group.topics.items() if name not in configs]:
                self._remove_queues(gone, group)

    @staticmethod
    def _set_writer(group: BrokerGroup, broker: BrokerAddress) -> None:
        """Record whose topics the table has from now on: those of another broker may differ from its registration."""
        if group.writer != broker:
            group.writer = broker
            group.renew_revision()

    def _update_topics(
        self, group: BrokerGroup, configs: Iterable[TopicConfig], has_changed: bool, perm_mask: int
    ) -> None:
        name, known, topics = group.name, group.topics, self.topics
        topic: Topic | None
        for config in configs:
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
            topic.encoded_routes.clear()

    def _update_mappings(self, group: BrokerGroup, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        for topic_name, mapping in mappings.items():
            topic = self.topics.get(topic_name)
            if topic is not None:
                topic.mappings = (topic.mappings or {}) | {group.name: mapping}
                topic.encoded_routes.clear()

    def _new_topic(self, name: str) -> Topic:
        topic = self.topics[name] = Topic(name)
        return topic

    def _add_live(
        self,
        broker: BrokerAddress,
        header: RegisterBroker,
        body: RegisterBrokerBody,
        channel: object,
        body_hash: int | None,
    ) -> LiveBroker:
        group = self.groups[header.broker_name]
        previous = self.live.get(broker)
        filter_servers = previous.filter_servers if previous is not None else []
        if body.filter_server_list is not None and body.filter_server_list != filter_servers:
            filter_servers = body.filter_server_list
            group.invalidate()
        if previous is None:
            log.info("broker %s of group %s registered", broker.address, header.broker_name)
        else:
            self._remove_live(broker)
        live = self.live[broker] = LiveBroker(
            group=header.broker_name,
            header=header,
            body_hash=body_hash,
            revision=group.revision,
            last_heartbeat=self._clock.monotonic(),
            data_version=body.topic_config_serialize_wrapper.data_version,
            channel=channel,
            filter_servers=filter_servers,
        )
        self._by_channel.setdefault(channel, set()).add(broker)
        return live

    def _response_to(self, header: RegisterBroker) -> BrokerRegistered:
        """Return the master's addresses to a slave, if the master is alive; empty for the master itself."""
        address = self.groups[header.broker_name].addresses.get(MASTER_ID)
        if header.broker_id == MASTER_ID or address is None:
            return BrokerRegistered()
        live = self.live.get(BrokerAddress(header.cluster_name, address))
        if live is None:
            return BrokerRegistered()
        return BrokerRegistered(ha_server_addr=live.header.ha_server_addr, master_addr=address)

    # Liveness

    def heartbeat(self, broker: BrokerAddress) -> LiveBroker | None:
        """Record a heartbeat; return the entry of the broker, or None if it has not registered."""
        live = self.live.get(broker)
        if live is not None:
            live.last_heartbeat = self._clock.monotonic()
        return live

    def expired(self) -> list[tuple[BrokerAddress, LiveBroker]]:
        """Return the brokers whose last heartbeat is older than the timeout that they registered with."""
        now = self._clock.monotonic()
        return [
            (broker, live)
            for broker, live in self.live.items()
            if live.last_heartbeat + live.timeout_millis / 1000 < now
        ]

    def channel_closed(self, channel: object) -> None:
        """Remove the brokers that registered on this connection and have not registered on another since."""
        for broker in list(self._by_channel.get(channel, ())):
            log.info("broker %s removed: its connection closed", broker.address)
            self.unregister(broker, self.live[broker].group)

    def unregister(self, broker: BrokerAddress, group_name: str) -> None:
        """Remove a broker; with the last broker of a group also the group and the topics that only it had."""
        live = self.live.get(broker)
        self._remove_live(broker)
        # The group it registered in counts, not the one in the request.
        group = self.groups.get(group_name if live is None else live.group)
        if group is None:
            return
        min_id_before = group.min_id
        removed = [broker_id for broker_id, address in group.addresses.items() if address == broker.address]
        for broker_id in removed:
            del group.addresses[broker_id]
        if not group.addresses:
            self._drop_if_empty(group)
            return
        group.invalidate()
        if group.enable_acting_master and MASTER_ID not in group.addresses:
            for topic in group.topics.values():
                topic.queues[group.name].perm &= _NOT_WRITE
        has_lost_min_id = min_id_before in removed
        if self._config.notify_min_broker_id_changed and has_lost_min_id and group.enable_acting_master:
            self._notify_min_id_change(group, offline_address=broker.address)

    def _move_to_channel(self, broker: BrokerAddress, live: LiveBroker, channel: object) -> None:
        """Record that a broker has reconnected."""
        self._remove_live(broker)
        live.channel = channel
        self.live[broker] = live
        self._by_channel.setdefault(channel, set()).add(broker)

    def _remove_live(self, broker: BrokerAddress) -> None:
        live = self.live.pop(broker, None)
        if live is not None:
            registered = self._by_channel[live.channel]
            registered.discard(broker)
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
        # `_remove_queues` inlined: the NameServer must not stall when a broker with 100,000 topics leaves.
        name = group.name
        for topic_name, topic in group.topics.items():
            topic.queues.pop(name, None)
            topic.encoded_routes.clear()
            if topic.mappings is not None:
                topic.mappings = {
                    broker: mapping for broker, mapping in topic.mappings.items() if broker != name
                } or None
            if not topic.queues and self.topics.get(topic_name) is topic:
                del self.topics[topic_name]
        group.topics.clear()

    def _notify_min_id_change(
        self, group: BrokerGroup, *, ha_address: str | None = None, offline_address: str | None = None
    ) -> None:
        min_id = min(group.addresses)
        # A broker that has just registered knows its own id. After a loss all remaining members are notified.
        recipients = [
            address
            for broker_id, address in group.addresses.items()
            if offline_address is not None or len(group.addresses) == 1 or broker_id != min_id
        ]
        change = NotifyMinBrokerIdChange(
            min_broker_id=min_id,
            min_broker_addr=group.addresses[min_id],
            offline_broker_addr=offline_address,
            ha_broker_addr=ha_address,
        )
        log.info("the minimum broker id of group %s is now %d, notifying %s", group.name, min_id, recipients)
        self._notify(Notice(recipients, change))

    # Topics

    def add_topic(self, name: str, queue_datas: Iterable[QueueData]) -> None:
        """Add the queues of one topic; does nothing if one of their brokers is unknown."""
        queue_datas = list(queue_datas)
        unknown = [queues.broker_name for queues in queue_datas if queues.broker_name not in self.groups]
        if unknown or not queue_datas:
            log.warning("topic %s not registered: %d unknown brokers %s", name, len(unknown), unknown[:10])
            return
        for queues in queue_datas:
            self._check_queues(name, queues)
        if name not in self.topics:
            self._check_topics([name])
        topic = self.topics.get(name) or self._new_topic(name)
        for queues in queue_datas:
            group = self.groups[queues.broker_name]
            topic.queues[group.name] = queues
            group.topics[name] = topic
            group.renew_revision()
        topic.encoded_routes.clear()

    def delete_topic(self, name: str, cluster: str | None = None) -> None:
        """Remove a topic from the brokers of one cluster, or from all brokers."""
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
        """Make all topics of a broker read-only, or readable and writable; return the number of topics."""
        group = self.groups.get(broker_name)
        if group is None:
            return 0
        group.renew_revision()
        for topic in group.topics.values():
            queues = topic.queues[broker_name]
            queues.perm = _READ_WRITE if is_writable else queues.perm & _NOT_WRITE
            topic.encoded_routes.clear()
        return len(group.topics)

    def invalidate_responses(self) -> None:
        """Make all registrations be decoded and all routes be encoded again; for changes of the configuration."""
        for group in self.groups.values():
            group.invalidate()

    def _remove_queues(self, topic: Topic, group: BrokerGroup) -> None:
        topic.queues.pop(group.name, None)
        group.topics.pop(topic.name, None)
        if topic.mappings is not None:
            topic.mappings = {name: mapping for name, mapping in topic.mappings.items() if name != group.name} or None
        group.renew_revision()
        topic.encoded_routes.clear()
        if not topic.queues and self.topics.get(topic.name) is topic:
            del self.topics[topic.name]
