"""The entries of the route table: topics, broker groups and live brokers."""

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

from kerolox.wire.bodies.routes import BrokerData, QueueData
from kerolox.wire.bodies.topic_pieces import TopicPieces
from kerolox.wire.bodies.topics import DataVersion, TopicQueueMappingInfo
from kerolox.wire.headers.namesrv import RegisterBroker

MASTER_ID = 0
DEFAULT_TIMEOUT_MILLIS = 120_000

# Never repeated: a group may be dropped, and another of the same name appear.
_revisions = itertools.count()


class BrokerAddress(NamedTuple):
    """Identifies a broker process (BrokerAddrInfo): clusters in separate networks may use the same address."""

    cluster: str
    address: str


@dataclass(slots=True, eq=False)
class Topic:
    """A topic's queues by broker group, and its encoded route, cached until something changes."""

    name: str
    queues: dict[str, QueueData] = field(default_factory=dict)
    mappings: dict[str, TopicQueueMappingInfo] | None = None
    # Cache of the encoded route: True → standard JSON, False → fastjson's dialect.
    encoded_routes: dict[bool, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """A master and its slaves, which share a broker name (BrokerData)."""

    name: str
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    # Renewed by every change that a repeated or similar registration may have to apply again.
    revision: int = field(default_factory=_revisions.__next__)
    # The broker whose registration set the queues of the topics.
    writer: BrokerAddress | None = None

    @property
    def min_id(self) -> int | None:
        return min(self.addresses, default=None)

    def renew_revision(self) -> None:
        self.revision = next(_revisions)

    def invalidate(self) -> None:
        """Drop the cached routes of all topics of this group."""
        self.renew_revision()
        for topic in self.topics.values():
            topic.encoded_routes.clear()

    def data(self) -> BrokerData:
        return BrokerData(
            broker_name=self.name,
            cluster=self.cluster,
            broker_addrs=dict(sorted(self.addresses.items())),
            enable_acting_master=self.enable_acting_master,
            zone_name=self.zone_name,
        )


@dataclass(slots=True, eq=False)
class LiveBroker:
    """A registered broker process and its last heartbeat (BrokerLiveInfo)."""

    group: str
    # The last registration: header, hash of the body, and the revision of the group after it was applied.
    header: RegisterBroker
    body_hash: int | None
    revision: int
    # By the monotonic clock: setting the wall clock must neither expire brokers nor keep dead ones.
    last_heartbeat: float
    data_version: DataVersion
    # The connection of the registration; when it closes, the broker is removed.
    channel: object
    filter_servers: list[str] = field(default_factory=list)
    # The text of the topics, if all of them are in the route table as registered, at the same revision of the group.
    pieces: TopicPieces | None = None

    @property
    def timeout_millis(self) -> int:
        timeout = self.header.heartbeat_timeout_millis
        return DEFAULT_TIMEOUT_MILLIS if timeout is None else timeout
