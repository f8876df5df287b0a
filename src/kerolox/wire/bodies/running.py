"""State of a consumer, the response to GET_CONSUMER_RUNNING_INFO (ConsumerRunningInfo)."""

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.integers import Int32, Int64


class ProcessQueueInfo(Body, kw_only=True):
    """State of one ProcessQueue: cached messages, lock, and times of the last pull and consumption."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mi_b: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    # Orderly consumption: the messages that the listener is processing.
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    # Java's spelling.
    is_dropped: bool = msgspec.field(name="droped", default=False)
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class ConsumeStatus(Body, kw_only=True):
    """Statistics of one topic: times in milliseconds, rates per second, failures of the last hour."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)


class ConsumerRunningInfo(Body, kw_only=True):
    jstack: str | None = None
    mq_pop_table: dict[str, str] = msgspec.field(default_factory=dict)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = msgspec.field(default_factory=dict)
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = msgspec.field(default_factory=dict)
    subscription_set: list[SubscriptionData] = msgspec.field(default_factory=list)
    user_consumer_info: dict[str, str] = msgspec.field(default_factory=dict)
