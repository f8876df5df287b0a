"""The metrics of a broker, under the names of RocketMQ 5.x (BrokerMetricsConstant and its like)."""

from kerolox.runtime.exposition import Kind, Metric

OF_TOPIC = ("topic", "is_system")
_OUT = ("topic", "consumer_group", "is_system")
_PAIR = ("topic", "consumer_group", "is_retry", "is_system")
_STORE = ("storage_type", "storage_medium")
_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

PERMISSION = Metric("rocketmq_broker_permission", _G, "What may be done here: 2 is write, 4 is read, 6 is both.")
TOPICS = Metric("rocketmq_topic_number", _G, "Topics of this broker.")
GROUPS = Metric("rocketmq_consumer_group_number", _G, "Consumer groups that this broker knows of.")
WATERMARK = Metric("rocketmq_processor_watermark", _G, "Requests under way, by what answers them.", ("processor",))
MESSAGES_IN = Metric("rocketmq_messages_in_total", _C, "Messages that were stored.", OF_TOPIC)
MESSAGES_OUT = Metric("rocketmq_messages_out_total", _C, "Messages that consumers were given.", _OUT)
BYTES_IN = Metric("rocketmq_throughput_in_total", _C, "Bytes of messages that were stored.", OF_TOPIC)
BYTES_OUT = Metric("rocketmq_throughput_out_total", _C, "Bytes of messages that consumers were given.", _OUT)
PRODUCERS = Metric(
    "rocketmq_producer_connections", _G, "Producers that are connected.", ("language", "version", "protocol_type")
)
CONSUMERS = Metric(
    "rocketmq_consumer_connections",
    _G,
    "Consumers that are connected.",
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
LAG = Metric("rocketmq_consumer_lag_messages", _G, "Messages that a group has not consumed yet.", _PAIR)
LAG_MILLIS = Metric(
    "rocketmq_consumer_lag_latency_milliseconds", _G, "Age of the first of them; 0 if there is none.", _PAIR
)
INFLIGHT = Metric(
    "rocketmq_consumer_inflight_messages", _G, "Messages that a group was given and has not consumed yet.", _PAIR
)
READY = Metric("rocketmq_consumer_ready_messages", _G, "Messages that a group was not given yet.", _PAIR)
QUEUEING_MILLIS = Metric(
    "rocketmq_consumer_queueing_latency_milliseconds", _G, "Age of the first of those; 0 if there is none.", _PAIR
)
DEAD = Metric(
    "rocketmq_send_to_dlq_messages_total",
    _C,
    "Messages that went to dead letters, by the topic that they were consumed from.",
    _OUT,
)
COMMITTED = Metric("rocketmq_commit_messages_total", _C, "Transactions that were committed.", ("topic",))
ROLLED_BACK = Metric("rocketmq_rollback_messages_total", _C, "Transactions that were rolled back.", ("topic",))
FINISH_SECONDS = Metric(
    "rocketmq_finish_message_latency_milliseconds",
    _H,
    "How long transactions took that were committed; in seconds, whatever the name says, as in Java.",
    ("topic",),
)
TOPIC_CREATION = Metric(
    "rocketmq_topic_create_execution_time_milliseconds",
    _H,
    "How long it took to make or change topics as an operator wished.",
    ("invocation_status", "is_system"),
)
GROUP_CREATION = Metric(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    _H,
    "The same of consumer groups.",
    ("invocation_status",),
)
POP_OFFSETS = Metric(
    "rocketmq_pop_offset_buffer_size", _G, "Offsets that were popped up to, and are committed when that is durable."
)
POP_CHECKPOINTS = Metric(
    "rocketmq_pop_checkpoint_buffer_size", _G, "Checkpoints that were read again and are not settled."
)
REVIVE_LAG = Metric(
    "rocketmq_pop_revive_lag_milliseconds",
    _G,
    "Messages of the revive log that are not settled; not milliseconds, whatever the name says, as in Java.",
    ("queue_id",),
)
REVIVE_MILLIS = Metric(
    "rocketmq_pop_revive_latency_milliseconds", _G, "Age of the first of them; 0 if there is none.", ("queue_id",)
)
REVIVE_IN = Metric(
    "rocketmq_pop_revive_in_message_total",
    _C,
    "Checkpoints (CK) and acknowledgements (ACK) that were written to the revive log.",
    ("topic", "consumer_group", "revive_message_type", "put_status"),
)
REVIVE_OUT = Metric(
    "rocketmq_pop_revive_out_message_total",
    _C,
    "The same that were read from it.",
    ("topic", "consumer_group", "queue_id", "revive_message_type"),
)
REVIVED = Metric(
    "rocketmq_pop_revive_retry_messages_total",
    _C,
    "Messages that were popped, not acknowledged in time, and stored again.",
    ("topic", "consumer_group", "put_status"),
)
STORED = Metric("rocketmq_storage_size_bytes", _G, "Bytes that the commit log holds.", _STORE)
FLUSH_BEHIND = Metric("rocketmq_storage_flush_behind_bytes", _G, "Bytes of the log that are not durable yet.", _STORE)
DISPATCH_BEHIND = Metric("rocketmq_storage_dispatch_behind_bytes", _G, "Bytes that no queue has yet.", _STORE)
RESERVED = Metric(
    "rocketmq_storage_message_reserve_time_milliseconds", _G, "Age of the oldest message of the log.", _STORE
)
TIMER_LAG = Metric("rocketmq_timer_enqueue_lag", _G, "Timer messages that have not been entered yet.", _STORE)
TIMER_LAG_MILLIS = Metric(
    "rocketmq_timer_enqueue_latency_milliseconds", _G, "Age of the first of them; 0 if there is none.", _STORE
)
TIMER_WAITING = Metric("rocketmq_timer_dequeue_lag", _G, "Messages that were entered and wait for their time.", _STORE)
TIMER_ENTERED = Metric(
    "rocketmq_timer_enqueue_total", _C, "Timer messages that were entered, each round counted.", ("topic", *_STORE)
)
TIMER_DELIVERED = Metric(
    "rocketmq_timer_dequeue_total",
    _C,
    "Timer messages that were delivered, or sent into another round.",
    ("topic", *_STORE),
)
TIMER_SNAPSHOT = Metric(
    "rocketmq_timer_message_snapshot",
    _G,
    "Messages that are due within so many seconds, and not within the bound before.",
    ("timer_bound_s", *_STORE),
)
TIMER_WAITS = Metric(
    "rocketmq_delay_message_latency_seconds", _H, "How long timer messages are to wait.", ("topic", *_STORE)
)
TIMER_MILLIS = Metric(
    "rocketmq_timer_dequeue_latency_milliseconds", _G, "Age of the time up to which all were delivered.", _STORE
)
TIMING = Metric("rocketmq_timing_messages", _G, "Messages that wait for their time.", ("topic", *_STORE))
# Of our own.
DISK_RATIO = Metric("kerolox_disk_used_ratio", _G, "How full the disk of the commit log is, from 0 to 1.")
PUT_MILLIS = Metric(
    "kerolox_put_latency_milliseconds", _G, "How long storing took in the minute before, at most.", ("quantile",)
)
PUTS = Metric("kerolox_put_milliseconds", _H, "How long requests took to be stored.")

# All of the above, in their order.
METRICS = tuple(it for it in list(globals().values()) if isinstance(it, Metric))
