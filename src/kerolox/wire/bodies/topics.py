"""Topic configuration and DataVersion."""

from enum import IntFlag

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.integers import Int32, Int64


class DataVersion(Body, gc=False):
    """Version of a configuration table. Two versions are equal only if all members are."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class Perm(IntFlag):
    """Permissions of the queues of a topic (PermName)."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class TopicSysFlag(IntFlag):
    UNIT = 1
    UNIT_SUB = 2


class TopicConfig(Body, gc=False, kw_only=True):
    # In Java's order: msgspec decodes members fastest in declaration order, and a broker may have thousands of topics.
    attributes: dict[str, str] | None = None
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: Int32 = 16
    topic_filter_type: str | None = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicQueueMappingInfo(Body):
    """The logical queues of a static topic that one broker holds."""

    topic: str | None = None
    scope: str | None = None
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] | None = None


class TopicConfigTable(Body):
    """All topics of a broker. The mapping members exist since 5.x, for static topics."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None


class TopicList(Body):
    topic_list: list[str]
    broker_addr: str | None = None
