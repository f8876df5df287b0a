"""Consumer offsets, offset resets, and statistics of topics and consumers."""

from typing import Any

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.integers import Int32, Int64


class ConsumerOffsetTable(Body):
    """`topic@group` → queue id → next offset."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    offset_table: dict[str, dict[Int32, Int64]] = msgspec.field(default_factory=dict)


class ResetOffsetBody(Body):
    offset_table: dict[MessageQueue, Int64]


class QueueOffset(Body, kw_only=True):
    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetBodyForC(Body):
    """ResetOffsetBody in the form that C++ clients decode."""

    offset_table: list[QueueOffset]


class ConsumerStatus(Body):
    """The in-memory offsets of one client."""

    message_queue_table: dict[MessageQueue, Int64] = msgspec.field(default_factory=dict)


class ConsumerStatusTable(Body):
    """Client id → its in-memory offsets."""

    consumer_table: dict[str, dict[MessageQueue, Int64]]


class CorrectionOffsets(Body):
    correction_offsets: dict[Int32, Int64]


class TopicOffset(Body, kw_only=True):
    last_update_timestamp: Int64
    max_offset: Int64
    min_offset: Int64


class TopicStatsTable(Body):
    offset_table: dict[MessageQueue, TopicOffset]
    topic_put_tps: float | None = None


class OffsetWrapper(Body, kw_only=True):
    broker_offset: Int64
    consumer_offset: Int64
    last_timestamp: Int64
    pull_offset: Int64 | None = None


class ConsumeStats(Body, kw_only=True):
    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = msgspec.field(default_factory=dict)


class BrokerConsumeStats(Body, kw_only=True):
    broker_addr: str
    consume_stats_list: list[dict[str, list[ConsumeStats]]]
    total_diff: Int64
    total_inflight_diff: Int64 | None = None


class ConsumeTimeSpan(Body, kw_only=True):
    """The `_str` members are the same timestamps, formatted."""

    consume_time_stamp: Int64
    consume_time_stamp_str: str | None = None
    delay_time: Int64
    max_time_stamp: Int64
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue
    min_time_stamp: Int64
    min_time_stamp_str: str | None = None


class ConsumeTimeSpans(Body):
    consume_time_span_set: list[ConsumeTimeSpan]


class QueueEntryData(Body, kw_only=True):
    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64


class ConsumeQueueData(Body, kw_only=True):
    filter_data: str | None = None
    max_queue_index: Int64
    min_queue_index: Int64
    queue_data: list[QueueEntryData]
    subscription_data: SubscriptionData | None = None


class StatsItem(Body, kw_only=True):
    avgpt: float
    sum: Int64
    tps: float


class BrokerStatsData(Body, kw_only=True):
    stats_day: StatsItem
    stats_hour: StatsItem
    stats_minute: StatsItem


class QuerySubscription(Body, kw_only=True):
    group: str
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class HaRuntimeInfo(Body, kw_only=True):
    ha_client_runtime_info: dict[str, Any] | None = None
    ha_connection_info: list[dict[str, Any]] = msgspec.field(default_factory=list)
    in_sync_slave_nums: Int32 = 0
    master: bool = True
    master_commit_log_max_offset: Int64 = 0
