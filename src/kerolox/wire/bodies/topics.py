"""Topics as brokers describe them, and the versions of such descriptions."""

from enum import IntFlag

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.integers import Int32, Int64


class DataVersion(Body, gc=False):
    """Which state of a table this is; equal only if every member is."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class Perm(IntFlag):
    """What may be done with a queue."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class TopicSysFlag(IntFlag):
    UNIT = 1
    UNIT_SUB = 2


class TopicConfig(Body, gc=False, kw_only=True):
    # In the order in which Java writes them, which is the fastest to read; a broker may have thousands.
    attributes: dict[str, str] | None = None
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: Int32 = 16
    topic_filter_type: str | None = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicQueueMappingInfo(Body):
    """Which logical queues of a static topic lie on one broker."""

    topic: str | None = None
    scope: str | None = None
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] | None = None


class TopicConfigTable(Body):
    """All topics of a broker. The mapping members are those of 5.x, for static topics."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None


class TopicList(Body):
    topic_list: list[str]
    broker_addr: str | None = None
