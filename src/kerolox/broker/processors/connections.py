"""Who is connected, as tools ask for it."""

from collections.abc import Iterable

from kerolox.broker.announcement import Identity
from kerolox.broker.clients import Channel, Clients
from kerolox.broker.errors import ConsumerNotOnline
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.errors import SystemFailure
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.turns import in_turns
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

_GROUPS_AT_ONCE = 200


class ConnectionProcessor:
    def __init__(self, clients: Clients, offsets: ConsumerOffsets, identity: Identity) -> None:
        self._clients = clients
        self._offsets = offsets
        self._identity = identity

    @handles(h.GetConsumerConnectionList)
    def consumers(self, request: Incoming[h.GetConsumerConnectionList]) -> Reply[Empty]:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None:
            raise ConsumerNotOnline(f"the consumer group[{request.header.consumer_group}] not online")
        found = ConsumerConnection(
            connection_set=_connections(group.channels.values()),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )
        return Reply(None, found.encode())

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
            of_group = ProducerTable({name: [_producer(channel) for channel in group.values()]}).encode()
            pieces.append(of_group.removeprefix(b'{"data":{').removesuffix(b"}}"))
        return Reply(None, b'{"data":{' + b",".join(pieces) + b"}}")

    @handles(b.QueryTopicsByConsumer)
    def topics(self, request: Incoming[b.QueryTopicsByConsumer]) -> Reply[Empty]:
        topics = self._offsets.topics_of(request.header.group)
        return Reply(None, TopicList(topics, self._identity.address).encode())

    @handles(b.QuerySubscriptionByConsumer)
    def subscription(self, request: Incoming[b.QuerySubscriptionByConsumer]) -> Reply[Empty]:
        header = request.header
        group = self._clients.consumers.get(header.group)
        found = None if group is None or header.topic is None else group.subscriptions.get(header.topic)
        return Reply(None, QuerySubscription(group=header.group, subscription_data=found, topic=header.topic).encode())


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
        # As Java writes the address of a socket.
        remote_ip=f"/{channel.connection.remote}",
        version=channel.version,
    )
