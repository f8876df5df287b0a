"""What a broker says of itself to NameServers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.topics import TopicTable
from kerolox.codes import CURRENT_VERSION
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, crc32
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable
from kerolox.wire.headers.namesrv import BrokerHeartbeat, QueryDataVersion, RegisterBroker, UnregisterBroker

_READ_WRITE = Perm.READ | Perm.WRITE


@dataclass(slots=True)
class Identity:
    """Under which addresses others know the broker; filled in once its port is known."""

    address: str
    ha_address: str


class Announcement:
    """The requests, and the bodies that registrations carry."""

    def __init__(self, config: BrokerConfig, topics: TopicTable, identity: Identity) -> None:
        self._config = config
        self._topics = topics
        self._identity = identity
        self.filter_servers: Callable[[], list[str]] = list

    def registration(self, body: bytes, *, heartbeats: bool) -> RegisterBroker:
        """`heartbeats` are promised only to who takes them: the others know no silence shorter than two minutes."""
        config = self._config
        return RegisterBroker(
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis if heartbeats else None,
            broker_id=config.broker_id,
            body_crc32=crc32(body),
            cluster_name=config.broker_cluster_name,
            broker_addr=self._identity.address,
            enable_acting_master=False,
            ha_server_addr=self._identity.ha_address,
            compressed=config.compressed_register,
            broker_name=config.broker_name,
        )

    def everything(self) -> Iterator[bytes]:
        """Yields the body of a registration of all topics, or several if there are many and the broker splits."""
        topics = list(self._topics.topics.values())
        size = self._config.split_registration_size if self._config.enable_split_registration else len(topics)
        pieces = [topics[at : at + size] for at in range(0, len(topics), size)] or [[]]
        version = self._topics.data_version
        for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
            # A NameServer reads only what has another version than the last; the true one comes with the last piece.
            yield self._body(piece, msgspec.structs.replace(version, timestamp=version.timestamp - left))

    def some(self, names: Iterable[str]) -> bytes:
        """Returns the body that tells of these topics only, which adds to what a NameServer knows."""
        found = [topic for name in names if (topic := self._topics.get(name)) is not None]
        return self._body(found, self._topics.data_version)

    def _body(self, topics: list[TopicConfig], version: DataVersion) -> bytes:
        table = TopicConfigTable(version, {topic.topic_name: self._as_permitted(topic) for topic in topics})
        body = RegisterBrokerBody(self.filter_servers(), table)
        if self._config.compressed_register:
            return compress(body, CURRENT_VERSION, with_attributes=False)
        return body.encode()

    def _as_permitted(self, topic: TopicConfig) -> TopicConfig:
        """Returns a topic as others may use it: not more than the broker allows."""
        permission = self._config.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & permission)

    def version(self) -> tuple[QueryDataVersion, bytes]:
        """Returns the question whether a NameServer has what holds now, and its body."""
        request = QueryDataVersion(
            broker_id=self._config.broker_id,
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._identity.address,
            broker_name=self._config.broker_name,
        )
        return request, self._topics.data_version.encode()

    def heartbeat(self) -> BrokerHeartbeat:
        return BrokerHeartbeat(
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._identity.address,
            broker_name=self._config.broker_name,
        )

    def farewell(self) -> UnregisterBroker:
        return UnregisterBroker(
            broker_id=self._config.broker_id,
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._identity.address,
            broker_name=self._config.broker_name,
        )
