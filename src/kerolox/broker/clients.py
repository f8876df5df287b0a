"""Who is connected: producers and consumers by group, as their heartbeats tell."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kerolox.broker.bounds import size_of
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.errors import SystemBusy
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import ConsumerData, SubscriptionData
from kerolox.wire.headers.clients import NotifyConsumerIdsChanged

log = logging.getLogger(__name__)

BROADCASTING = "BROADCASTING"
# Bounds the original does not have: groups that one connection may name, what the subscriptions in them may take,
# and those of all groups together.
_GROUPS_OF_CONNECTION_MAX = 10_000
_SUBSCRIBED_SIZE_MAX = 4 * 1024 * 1024
_SUBSCRIBED_SIZE_TOTAL_MAX = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Channel:
    """A client on its connection."""

    client_id: str
    connection: Connection
    language: str
    version: int
    seen_millis: int


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    channels: dict[Connection, Channel] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    updated_millis: int = 0
    # About what the subscriptions take.
    size: int = 0

    @property
    def client_ids(self) -> list[str]:
        return [channel.client_id for channel in self.channels.values()]

    def find(self, client_id: str) -> Channel | None:
        return next((channel for channel in self.channels.values() if channel.client_id == client_id), None)


ProducerGroup = dict[Connection, Channel]
_Parts = dict[Connection, dict[str, int]]


class Clients:
    """Groups exist as long as somebody is in them."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.producers: dict[str, ProducerGroup] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        # Of each connection the groups it has a part in, with the size of what it subscribed to there.
        self._producing: _Parts = {}
        self._consuming: _Parts = {}
        self._subscribed_sizes: dict[Connection, int] = {}
        self._subscribed_size = 0
        # Whether members of a group want to be told of changes.
        self.is_notified: Callable[[str], bool] = lambda group: True
        # Told when the last member of a group has left, and of all subscriptions of a group when some have changed.
        self.on_left: Callable[[str], None] = lambda group: None
        self.on_subscribed: Callable[[str, Iterable[SubscriptionData]], None] = lambda group, subscriptions: None

    # Producers

    def produce(self, group: str, channel: Channel) -> None:
        """Notes that a producer is here."""
        self._admit(self._producing, group, channel.connection)
        members = self.producers.setdefault(group, {})
        known = members.get(channel.connection)
        if known is None:
            log.info("producer %s of group %s from %s", channel.client_id, group, channel.connection.remote)
            _warn_of_twin(group, channel, members.values())
            members[channel.connection] = channel
        else:
            known.seen_millis = channel.seen_millis

    def producer(self, client_id: str) -> Channel | None:
        """Returns the channel of a producer, whatever its group."""
        for members in self.producers.values():
            for channel in members.values():
                if channel.client_id == client_id and not channel.connection.is_closed:
                    return channel
        return None

    # Consumers

    def consume(self, data: ConsumerData, channel: Channel, *, is_refresh: bool = False) -> bool:
        """Notes that a consumer is here, and what it wants; returns whether its group has changed.

        With `is_refresh` the heartbeat left its subscriptions out, since they have not changed.
        """
        name = data.group_name
        self._admit(self._consuming, name, channel.connection)
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
            known.seen_millis = channel.seen_millis
            return False
        _warn_of_twin(group.name, channel, group.channels.values())
        log.info("consumer %s of group %s from %s", channel.client_id, group.name, channel.connection.remote)
        group.channels[channel.connection] = channel
        return True

    def _subscribe(self, group: ConsumerGroup, wanted: list[SubscriptionData], connection: Connection) -> bool:
        """Takes over the subscriptions of the newest heartbeat; a new topic or one less is a change."""
        self._charge(group.name, connection, size_of(wanted))
        merged: dict[str, SubscriptionData] = {}
        is_newer = False
        for subscription in wanted:
            topic = subscription.topic
            known = merged[topic] if topic in merged else group.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                known, is_newer = subscription, True
            merged[topic] = known
        is_changed = merged.keys() != group.subscriptions.keys()
        if not is_changed and not is_newer:
            return False
        # Also of older heartbeats, whose versions were higher.
        size = size_of(merged.values())
        total = self._subscribed_size - group.size + size
        if size > group.size and total > _SUBSCRIBED_SIZE_TOTAL_MAX:
            raise SystemBusy(f"the subscriptions of all groups take {total} bytes, and may take no more")
        for topic in group.subscriptions.keys() - merged.keys():
            log.info("group %s has left topic %s", group.name, topic)
        group.subscriptions, group.size, self._subscribed_size = merged, size, total
        self.on_subscribed(group.name, wanted)
        return is_changed

    def _charge(self, name: str, connection: Connection, size: int) -> None:
        of_connection = self._consuming[connection]
        total = self._subscribed_sizes.get(connection, 0) - of_connection[name] + size
        if size > of_connection[name] and total > _SUBSCRIBED_SIZE_MAX:
            raise InvalidParameter(
                f"the subscriptions of one connection take {total} bytes, at most {_SUBSCRIBED_SIZE_MAX} allowed: "
                "share them out among several clients"
            )
        self._subscribed_sizes[connection], of_connection[name] = total, size

    def notify(self, name: str) -> None:
        """Has the members of a group share out the queues anew."""
        group = self.consumers.get(name)
        if group is None or group.message_model == BROADCASTING or not self.is_notified(name):
            return
        notice = NotifyConsumerIdsChanged(consumer_group=name)
        for channel in list(group.channels.values()):
            if not channel.connection.tell(notice):
                log.debug("%s could not be told that group %s has changed", channel.connection.remote, name)

    # Leaving

    def leave(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        """Takes a client out of its groups, as it asked."""
        if producer_group:
            self._leave_producers(producer_group, connection)
        if consumer_group:
            self._leave_consumers(consumer_group, connection)

    def channel_closed(self, connection: Connection) -> None:
        for group in self._producing.pop(connection, ()):
            self._leave_producers(group, connection)
        self._subscribed_sizes.pop(connection, None)
        for group in self._consuming.pop(connection, ()):
            self._leave_consumers(group, connection)

    def expire(self) -> None:
        """Closes the connections of those who have not been heard of for too long."""
        oldest = self._clock.millis() - self._config.channel_expired_timeout
        for channel in list(self._channels()):
            if channel.seen_millis < oldest and not channel.connection.is_closed:
                log.warning("closed %s: no heartbeat of %s", channel.connection.remote, channel.client_id)
                self.channel_closed(channel.connection)
                channel.connection.abort()

    def _channels(self) -> Iterator[Channel]:
        for members in self.producers.values():
            yield from members.values()
        for group in self.consumers.values():
            yield from group.channels.values()

    def _leave_producers(self, name: str, connection: Connection) -> None:
        self._producing.get(connection, {}).pop(name, None)
        members = self.producers.get(name)
        if members is not None and members.pop(connection, None) is not None and not members:
            del self.producers[name]

    def _leave_consumers(self, name: str, connection: Connection) -> None:
        size = self._consuming.get(connection, {}).pop(name, 0)
        if size:
            self._subscribed_sizes[connection] -= size
        group = self.consumers.get(name)
        if group is None or group.channels.pop(connection, None) is None:
            return
        if not group.channels:
            del self.consumers[name]
            self._subscribed_size -= group.size
            self.on_left(name)
        else:
            self.notify(name)

    def _admit(self, groups: _Parts, name: str, connection: Connection) -> None:
        if connection.is_closed:
            # Its heartbeat was the last thing it sent; nobody would ever take it out again.
            raise SystemBusy("the connection is closed")
        of_connection = groups.setdefault(connection, {})
        if name not in of_connection and len(of_connection) >= _GROUPS_OF_CONNECTION_MAX:
            raise SystemBusy(f"{len(of_connection)} groups on one connection, at most {_GROUPS_OF_CONNECTION_MAX}")
        of_connection.setdefault(name, 0)


def _warn_of_twin(group: str, channel: Channel, members: Iterable[Channel]) -> None:
    """Says so if another connection of the group has the same client id."""
    for other in members:
        if other.client_id == channel.client_id and not other.connection.is_closed:
            log.warning(
                "client id %s of group %s comes from %s and from %s: give each process its own",
                channel.client_id,
                group,
                other.connection.remote,
                channel.connection.remote,
            )
            return
