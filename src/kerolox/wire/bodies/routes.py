"""Where topics are: routes and clusters, as clients and tools read them."""

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.topics import TopicQueueMappingInfo
from kerolox.wire.integers import Int32, Int64


class QueueData(Body, gc=False):
    """How many queues a topic has on one broker, and what may be done with them."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0
    # How releases before 4.9 spelled it; taken over, and not written.
    topic_syn_flag: Int32 | None = None

    def __post_init__(self) -> None:
        if self.topic_syn_flag is not None:
            self.topic_sys_flag, self.topic_syn_flag = self.topic_syn_flag, None


class BrokerData(Body):
    """The living members of a broker group: id to address, the master under 0."""

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


class ClusterInfo(Body):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str] = {}


class BrokerMemberGroupBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
