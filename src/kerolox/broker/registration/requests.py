"""The requests that a broker sends to NameServers (BrokerOuterAPI)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.topics import TopicTable
from kerolox.codes import CURRENT_VERSION
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, crc32
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable
from kerolox.wire.headers.namesrv import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    RegisterBroker,
    RegisterTopicInNamesrv,
    UnregisterBroker,
)

_READ_WRITE = Perm.READ | Perm.WRITE


@dataclass(slots=True)
class BrokerAddresses:
    """The advertised addresses of the broker; filled in when its port is known."""

    address: str
    ha_address: str


class RegistrationRequests:
    """Builds requests and bodies from the current settings and topics."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        addresses: BrokerAddresses,
        filter_servers: Callable[[], list[str]] = list,
    ) -> None:
        self._config = config
        self._topics = topics
        self._addresses = addresses
        self.filter_servers = filter_servers

    def registration(self, body: bytes, *, heartbeats: bool) -> RegisterBroker:
        """Return the request for a body of `everything` or `some`.

        With `heartbeats` it announces light heartbeats, so that the NameServer removes the broker soon after they stop.
        A NameServer that does not support them removes the broker two minutes after its last registration.
        """
        config = self._config
        return RegisterBroker(
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis if heartbeats else None,
            broker_id=config.broker_id,
            body_crc32=crc32(body),
            cluster_name=config.broker_cluster_name,
            broker_addr=self._addresses.address,
            enable_acting_master=False,
            ha_server_addr=self._addresses.ha_address,
            compressed=config.compressed_register,
            broker_name=config.broker_name,
        )

    def everything(self) -> Iterator[bytes]:
        """Yield the body of a registration of all topics; several bodies with enableSplitRegistration."""
        topics = list(self._topics.topics.values())
        size = self._config.split_registration_size if self._config.enable_split_registration else len(topics)
        pieces = [topics[start : start + size] for start in range(0, len(topics), size)] or [[]]
        version = self._topics.data_version
        for remaining, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
            # A NameServer ignores a body with the version of the one before, so each piece gets a version of its own.
            # The last piece has the actual version.
            yield self._body(piece, msgspec.structs.replace(version, timestamp=version.timestamp - remaining))

    def some(self, names: Iterable[str]) -> bytes:
        """Return the body of a registration of these topics only.

        A NameServer with deleteTopicWithBrokerRegistration then drops all other topics of the broker.
        """
        return self._body(self._find_topics(names), self._topics.data_version)

    def single(self, names: Iterable[str]) -> Iterator[tuple[RegisterTopicInNamesrv, bytes]]:
        """Yield a request per topic that registers only this topic with a NameServer of 5.x, and its body."""
        for topic in map(self._as_permitted, self._find_topics(names)):
            queues = QueueData(
                broker_name=self._config.broker_name,
                read_queue_nums=topic.read_queue_nums,
                write_queue_nums=topic.write_queue_nums,
                perm=topic.perm,
                topic_sys_flag=topic.topic_sys_flag,
            )
            yield RegisterTopicInNamesrv(topic=topic.topic_name), TopicRouteData(queue_datas=[queues]).encode()

    def _find_topics(self, names: Iterable[str]) -> list[TopicConfig]:
        return [topic for name in names if (topic := self._topics.get(name)) is not None]

    def _body(self, topics: list[TopicConfig], version: DataVersion) -> bytes:
        table = TopicConfigTable(version, {topic.topic_name: self._as_permitted(topic) for topic in topics})
        body = RegisterBrokerBody(self.filter_servers(), table)
        if self._config.compressed_register:
            return compress(body, CURRENT_VERSION, with_attributes=False)
        return body.encode()

    def _as_permitted(self, topic: TopicConfig) -> TopicConfig:
        """Return the topic with its permissions limited to brokerPermission."""
        permission = self._config.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & permission)

    def version(self) -> tuple[QueryDataVersion, bytes]:
        """Return the request that asks whether the NameServer has the current version of the topics, and its body."""
        request = QueryDataVersion(
            broker_id=self._config.broker_id,
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._addresses.address,
            broker_name=self._config.broker_name,
        )
        return request, self._topics.data_version.encode()

    def heartbeat(self) -> BrokerHeartbeat:
        return BrokerHeartbeat(
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._addresses.address,
            broker_name=self._config.broker_name,
        )

    def members(self) -> GetBrokerMemberGroup:
        """Return the request for the addresses of the brokers of the group."""
        return GetBrokerMemberGroup(cluster_name=self._config.broker_cluster_name, broker_name=self._config.broker_name)

    def unregistration(self) -> UnregisterBroker:
        return UnregisterBroker(
            broker_id=self._config.broker_id,
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._addresses.address,
            broker_name=self._config.broker_name,
        )
