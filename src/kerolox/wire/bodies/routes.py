"""Topic routes and cluster info, as NameServers return them."""

from collections.abc import Iterator

import msgspec

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.topics import TopicQueueMappingInfo
from kerolox.wire.integers import Int32, Int64

# Queues of one topic over all brokers that a client accepts.
QUEUES_MAX = 100_000


class QueueData(Body, gc=False):
    """Number and permissions of the queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0
    # The spelling of releases before 4.9: decoded into topic_sys_flag, never encoded.
    topic_syn_flag: Int32 | None = None

    def __post_init__(self) -> None:
        if self.topic_syn_flag is not None:
            self.topic_sys_flag, self.topic_syn_flag = self.topic_syn_flag, None


class BrokerData(Body):
    """The live members of a broker group: broker id → address. The master has id 0."""

    broker_name: str
    cluster: str | None = None
    broker_addrs: dict[Int64, str] = {}
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body):
    broker_datas: list[BrokerData] = []
    queue_datas: list[QueueData] = []
    filter_server_table: dict[str, list[str]] | None = msgspec.field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def check(self, topic: str) -> None:
        """Raise ProtocolError if the route has more than QUEUES_MAX queues: each becomes an object in the client."""
        count = max(
            sum(max(queues.read_queue_nums, 0) for queues in self.queue_datas),
            sum(max(queues.write_queue_nums, 0) for queues in self.queue_datas),
            sum(count for _, count in self.ordered_queues()),
        )
        if count > QUEUES_MAX:
            raise ProtocolError(
                f"the route of topic {topic!r} has {count} queues, at most {QUEUES_MAX} are accepted: "
                "give the topic fewer queues"
            )

    def ordered_queues(self) -> Iterator[tuple[str, int]]:
        """Yield (broker name, number of queues) of an ordered topic, parsed from `broker-a:4;broker-b:4`."""
        for part in (self.order_topic_conf or "").split(";"):
            broker_name, _, count = part.partition(":")
            if broker_name and count.isdecimal():
                # Ten digits already exceed QUEUES_MAX, and int() refuses to convert thousands of digits.
                yield broker_name, int(count[:10])


class ClusterInfo(Body):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str] = {}


class BrokerMemberGroupBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
