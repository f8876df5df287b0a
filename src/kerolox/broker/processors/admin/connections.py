"""Connected producers and consumers, and their subscriptions."""

from collections.abc import Iterable

from kerolox.broker.errors import ConsumerNotOnline
from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.client_registry import Channel
from kerolox.errors import SystemFailure
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.wire.bodies.clients import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from kerolox.wire.bodies.offsets import QuerySubscription
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import clients as h
from kerolox.wire.reply import Reply

# Groups encoded without yielding to other tasks.
_GROUPS_AT_ONCE = 200


class ConnectionProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._clients = parts.clients
        self._offsets = parts.offsets
        self._addresses = parts.addresses

    @handles(h.GetConsumerConnectionList)
    def consumers(self, request: Incoming[h.GetConsumerConnectionList]) -> Reply[Empty]:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None:
            raise ConsumerNotOnline(f"the consumer group[{request.header.consumer_group}] not online")
        connection = ConsumerConnection(
            connection_set=_connections(group.channels.values()),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )
        return Reply(None, connection.encode())

    @handles(h.GetProducerConnectionList)
    def producers(self, request: Incoming[h.GetProducerConnectionList]) -> Reply[Empty]:
        group = self._clients.producers.get(request.header.producer_group)
        if group is None:
            raise SystemFailure(f"the producer group[{request.header.producer_group}] not exist")
        return Reply(None, ProducerConnection(_connections(group.values())).encode())

    @handles(h.GetAllProducerInfo)
    async def all_producers(self, request: Incoming[h.GetAllProducerInfo]) -> Reply[Empty]:
        pieces: list[bytes] = []
        async for name, group in in_turns(list(self._clients.producers.items()), count=_GROUPS_AT_ONCE):
            encoded = ProducerTable({name: [_producer(channel) for channel in group.values()]}).encode()
            pieces.append(encoded.removeprefix(b'{"data":{').removesuffix(b"}}"))
        return Reply(None, b'{"data":{' + b",".join(pieces) + b"}}")

    @handles(b.QueryTopicsByConsumer)
    def topics(self, request: Incoming[b.QueryTopicsByConsumer]) -> Reply[Empty]:
        topics = self._offsets.topics_of(request.header.group)
        return Reply(None, TopicList(topics, self._addresses.address).encode())

    @handles(b.QuerySubscriptionByConsumer)
    def subscription(self, request: Incoming[b.QuerySubscriptionByConsumer]) -> Reply[Empty]:
        header = request.header
        group = self._clients.consumers.get(header.group)
        subscribed = None if group is None or header.topic is None else group.subscriptions.get(header.topic)
        return Reply(
            None, QuerySubscription(group=header.group, subscription_data=subscribed, topic=header.topic).encode()
        )


def _connections(channels: Iterable[Channel]) -> list[ClientConnection]:
    return [
        ClientConnection(
            client_addr=channel.connection.remote,
            client_id=channel.client_id,
            language=channel.language,
            version=channel.version,
        )
        for channel in channels
    ]


def _producer(channel: Channel) -> ProducerInfo:
    return ProducerInfo(
        client_id=channel.client_id,
        language=channel.language,
        last_update_timestamp=channel.seen_millis,
        # The format of Java's SocketAddress.
        remote_ip=f"/{channel.connection.remote}",
        version=channel.version,
    )
