"""Connected producers and consumers by group, known from their heartbeats (ProducerManager, ConsumerManager)."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kerolox.broker.client_limits import subscriptions_size
from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables.group_notices import GroupNotices
from kerolox.errors import SystemBusy
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import ConsumerData, SubscriptionData

log = logging.getLogger(__name__)

BROADCASTING = "BROADCASTING"
# Limits that RocketMQ does not have: groups per connection, and bytes of subscriptions per connection and in total.
_GROUPS_PER_CONNECTION_MAX = 5_000
_SUBSCRIPTION_SIZE_PER_CONNECTION_MAX = 4 * 1024 * 1024
_SUBSCRIPTION_SIZE_TOTAL_MAX = 256 * 1024 * 1024
# Producer groups that Java clients create internally, for sending messages back and for traces. Users cannot choose
# their client ids, so duplicates are not worth a warning.
_INTERNAL_PRODUCER_PREFIXES = ("CLIENT_INNER_PRODUCER", "_INNER_TRACE_PRODUCER")


@dataclass(slots=True, eq=False)
class Channel:
    """A client on its connection (ClientChannelInfo)."""

    client_id: str
    connection: Connection
    language: str
    version: int
    # Time of the last heartbeat: wall clock for display, monotonic for expiry.
    seen_millis: int
    seen_at: float


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The members of a consumer group and its subscriptions by topic (ConsumerGroupInfo)."""

    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    channels: dict[Connection, Channel] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    updated_millis: int = 0
    # Approximate memory used by `subscriptions`.
    size: int = 0

    @property
    def client_ids(self) -> list[str]:
        return [channel.client_id for channel in self.channels.values()]

    def find(self, client_id: str) -> Channel | None:
        return next((channel for channel in self.channels.values() if channel.client_id == client_id), None)


ProducerGroup = dict[Connection, Channel]
_GroupsByConnection = dict[Connection, dict[str, int]]


class ClientRegistry:
    """A group exists here as long as it has a member."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        is_notified: Callable[[str], bool] = lambda group: True,
        on_subscribed: Callable[[str, Iterable[SubscriptionData]], None] = lambda group, subscriptions: None,
        on_left: Callable[[str], None] = lambda group: None,
    ) -> None:
        self._config = config
        self._clock = clock
        # Whether the members of a group are notified when one joins or leaves.
        self._is_notified = is_notified
        # Called with all subscriptions of a group when some have changed, and when its last member has left.
        self._on_subscribed = on_subscribed
        self._on_left = on_left
        self.producers: dict[str, ProducerGroup] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        # Connection → group → bytes of the subscriptions that the connection brought (0 for producers).
        self._producer_groups: _GroupsByConnection = {}
        self._consumer_groups: _GroupsByConnection = {}
        self._subscription_sizes: dict[Connection, int] = {}
        self._subscription_size_total = 0
        self._notices = GroupNotices(self._members_to_notify)

    # Producers

    def register_producer(self, group: str, channel: Channel) -> None:
        """Add a producer to its group, or renew its last heartbeat."""
        self._check_connection(self._producer_groups, group, channel.connection)
        members = self.producers.setdefault(group, {})
        known = members.get(channel.connection)
        if known is None:
            log.info("producer %s of group %s from %s", channel.client_id, group, channel.connection.remote)
            _warn_of_duplicate_id(group, channel, members.values())
            members[channel.connection] = channel
        else:
            known.seen_millis, known.seen_at = channel.seen_millis, channel.seen_at

    def find_producer(self, client_id: str) -> Channel | None:
        """Return an open channel of the producer with this client id, in any group."""
        for members in self.producers.values():
            for channel in members.values():
                if channel.client_id == client_id and not channel.connection.is_closed:
                    return channel
        return None

    # Consumers

    def register_consumer(self, data: ConsumerData, channel: Channel, *, is_refresh: bool = False) -> bool:
        """Add a consumer and its subscriptions to its group; return whether the group has changed.

        With `is_refresh` the heartbeat omitted its subscriptions because they have not changed.
        """
        name = data.group_name
        self._check_connection(self._consumer_groups, name, channel.connection)
        group = self.consumers.get(name) or ConsumerGroup(name)
        is_changed = False
        if not is_refresh:
            is_changed = self._subscribe(group, data.subscription_data_set or [], channel.connection)
        self.consumers[name] = group
        is_changed |= self._join(group, data, channel)
        group.updated_millis = channel.seen_millis
        if is_changed:
            self.notify(name)
        return is_changed

    def _join(self, group: ConsumerGroup, data: ConsumerData, channel: Channel) -> bool:
        group.consume_type, group.message_model = data.consume_type, data.message_model
        group.consume_from_where = data.consume_from_where
        known = group.channels.get(channel.connection)
        if known is not None and known.client_id == channel.client_id:
            known.seen_millis, known.seen_at = channel.seen_millis, channel.seen_at
            return False
        _warn_of_duplicate_id(group.name, channel, group.channels.values())
        log.info("consumer %s of group %s from %s", channel.client_id, group.name, channel.connection.remote)
        group.channels[channel.connection] = channel
        return True

    def _subscribe(self, group: ConsumerGroup, subscriptions: list[SubscriptionData], connection: Connection) -> bool:
        """Replace the group's subscriptions by those of the newest heartbeat; return whether its topics changed."""
        self._charge_connection(group.name, connection, subscriptions_size(subscriptions))
        merged: dict[str, SubscriptionData] = {}
        is_newer = False
        for subscription in subscriptions:
            topic = subscription.topic
            known = merged[topic] if topic in merged else group.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                known, is_newer = subscription, True
            merged[topic] = known
        is_changed = merged.keys() != group.subscriptions.keys()
        if not is_changed and not is_newer:
            return False
        # Measured after merging: `merged` may contain subscriptions of older heartbeats with higher versions.
        size = subscriptions_size(merged.values())
        total = self._subscription_size_total - group.size + size
        if size > group.size and total > _SUBSCRIPTION_SIZE_TOTAL_MAX:
            raise SystemBusy(
                f"the subscriptions of all groups take {total} bytes, at most {_SUBSCRIPTION_SIZE_TOTAL_MAX} allowed"
            )
        for topic in group.subscriptions.keys() - merged.keys():
            log.info("group %s has unsubscribed from topic %s", group.name, topic)
        group.subscriptions, group.size, self._subscription_size_total = merged, size, total
        self._on_subscribed(group.name, subscriptions)
        return is_changed

    def _charge_connection(self, name: str, connection: Connection, size: int) -> None:
        """Account the size of a group's subscriptions to the connection that sent them."""
        sizes = self._consumer_groups[connection]
        total = self._subscription_sizes.get(connection, 0) - sizes[name] + size
        if size > sizes[name] and total > _SUBSCRIPTION_SIZE_PER_CONNECTION_MAX:
            raise InvalidParameter(
                f"the subscriptions of one connection take {total} bytes, "
                f"at most {_SUBSCRIPTION_SIZE_PER_CONNECTION_MAX} allowed: distribute them among several clients"
            )
        self._subscription_sizes[connection], sizes[name] = total, size

    def notify(self, name: str) -> None:
        """Notify the members of a group that it has changed, so that they rebalance."""
        self._notices.changed(name)

    def _members_to_notify(self, name: str) -> Iterable[Connection]:
        group = self.consumers.get(name)
        if group is None or group.message_model == BROADCASTING or not self._is_notified(name):
            return ()
        return group.channels

    # Unregistering

    def unregister(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a client from its groups at its own request (UNREGISTER_CLIENT)."""
        if producer_group:
            self._remove_producer(producer_group, connection)
        if consumer_group:
            self._remove_consumer(consumer_group, connection)

    def channel_closed(self, connection: Connection) -> None:
        for group in self._producer_groups.pop(connection, ()):
            self._remove_producer(group, connection)
        self._subscription_sizes.pop(connection, None)
        for group in self._consumer_groups.pop(connection, ()):
            self._remove_consumer(group, connection)

    def expire(self) -> None:
        """Close the connections of clients without a heartbeat for channelExpiredTimeout."""
        oldest = self._clock.monotonic() - self._config.channel_expired_timeout / 1000
        for channel in list(self._channels()):
            if channel.seen_at < oldest and not channel.connection.is_closed:
                log.warning("closed %s: no heartbeat from client %s", channel.connection.remote, channel.client_id)
                self.channel_closed(channel.connection)
                channel.connection.abort()

    def _channels(self) -> Iterator[Channel]:
        for members in self.producers.values():
            yield from members.values()
        for group in self.consumers.values():
            yield from group.channels.values()

    def _remove_producer(self, name: str, connection: Connection) -> None:
        self._producer_groups.get(connection, {}).pop(name, None)
        members = self.producers.get(name)
        if members is not None and members.pop(connection, None) is not None and not members:
            del self.producers[name]

    def _remove_consumer(self, name: str, connection: Connection) -> None:
        size = self._consumer_groups.get(connection, {}).pop(name, 0)
        if size:
            self._subscription_sizes[connection] -= size
        group = self.consumers.get(name)
        if group is None or group.channels.pop(connection, None) is None:
            return
        if not group.channels:
            del self.consumers[name]
            self._subscription_size_total -= group.size
            self._notices.group_ended(name)
            self._on_left(name)
        else:
            self.notify(name)

    def _check_connection(self, groups: _GroupsByConnection, name: str, connection: Connection) -> None:
        """Note that a connection belongs to a group; SystemBusy if it is closed or belongs to too many."""
        if connection.is_closed:
            # `channel_closed` has already run for this connection, so an entry made now would never be removed.
            raise SystemBusy("the connection is closed")
        sizes = groups.setdefault(connection, {})
        if name not in sizes and len(sizes) >= _GROUPS_PER_CONNECTION_MAX:
            raise SystemBusy(f"{len(sizes)} groups on one connection, at most {_GROUPS_PER_CONNECTION_MAX} allowed")
        sizes.setdefault(name, 0)


def _warn_of_duplicate_id(group: str, channel: Channel, members: Iterable[Channel]) -> None:
    """Warn if another connection of the group has the same client id, unless clients created the group internally."""
    if group.startswith(_INTERNAL_PRODUCER_PREFIXES):
        return
    for other in members:
        if other.client_id == channel.client_id and not other.connection.is_closed:
            log.warning(
                "client id %s of group %s is used by %s and by %s: give each process its own",
                channel.client_id,
                group,
                other.connection.remote,
                channel.connection.remote,
            )
            return
