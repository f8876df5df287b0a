"""What the NameServer knows of topics and brokers, entry by entry."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kerolox.wire.bodies.routes import BrokerData, QueueData
from kerolox.wire.bodies.topics import DataVersion, TopicQueueMappingInfo
from kerolox.wire.headers.namesrv import RegisterBroker

MASTER_ID = 0
DEFAULT_TIMEOUT_MILLIS = 120_000


class BrokerAddress(NamedTuple):
    """The name of one broker process: two clusters may use the same address behind different networks."""

    cluster: str
    address: str


@dataclass(slots=True, eq=False)
class Topic:
    """A topic's queues by broker group, and the answers made from them, kept until something changes."""

    name: str
    queues: dict[str, QueueData] = field(default_factory=dict)
    mappings: dict[str, TopicQueueMappingInfo] | None = None
    # Encoded routes: standard JSON under True, fastjson's dialect under False.
    answers: dict[bool, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """A master and its slaves, which share a broker name."""

    name: str
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    # Counts what a registration would have to set right again.
    revision: int = 0

    @property
    def min_id(self) -> int | None:
        return min(self.addresses, default=None)

    def has_changed(self) -> None:
        """Forgets the answers in which this group appears."""
        self.revision += 1
        for topic in self.topics.values():
            topic.answers.clear()

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
    """A broker process that registered, and when it was last heard of."""

    group: str
    # Its last registration: the header, the hash of the body, and the revision of the group it led to.
    header: RegisterBroker
    said: tuple[int | None, int]
    updated_at_millis: int
    data_version: DataVersion
    # The connection it registered on; its end is the broker's end.
    channel: object
    filter_servers: list[str] = field(default_factory=list)

    @property
    def timeout_millis(self) -> int:
        timeout = self.header.heartbeat_timeout_millis
        return DEFAULT_TIMEOUT_MILLIS if timeout is None else timeout
