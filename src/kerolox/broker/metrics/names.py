"""The metrics of a broker, with the names of RocketMQ 5.x (BrokerMetricsConstant, DefaultStoreMetricsConstant)."""

from kerolox.runtime.metrics.prometheus import Kind, Metric

TOPIC_LABELS = ("topic", "is_system")
_GROUP_LABELS = ("topic", "consumer_group", "is_system")
_LAG_LABELS = ("topic", "consumer_group", "is_retry", "is_system")
_STORAGE_LABELS = ("storage_type", "storage_medium")
_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

PERMISSION = Metric("rocketmq_broker_permission", _G, "Permission of the broker: 2 is write, 4 is read, 6 is both.")
TOPICS = Metric("rocketmq_topic_number", _G, "Number of topics.")
GROUPS = Metric("rocketmq_consumer_group_number", _G, "Number of consumer groups.")
WATERMARK = Metric("rocketmq_processor_watermark", _G, "Requests in progress, by request queue.", ("processor",))
MESSAGES_IN = Metric("rocketmq_messages_in_total", _C, "Messages stored.", TOPIC_LABELS)
MESSAGES_OUT = Metric("rocketmq_messages_out_total", _C, "Messages delivered to consumers.", _GROUP_LABELS)
BYTES_IN = Metric("rocketmq_throughput_in_total", _C, "Bytes of messages stored.", TOPIC_LABELS)
BYTES_OUT = Metric("rocketmq_throughput_out_total", _C, "Bytes of messages delivered to consumers.", _GROUP_LABELS)
PRODUCERS = Metric(
    "rocketmq_producer_connections", _G, "Connected producers.", ("language", "version", "protocol_type")
)
CONSUMERS = Metric(
    "rocketmq_consumer_connections",
    _G,
    "Connected consumers.",
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
LAG = Metric("rocketmq_consumer_lag_messages", _G, "Messages that the group has not consumed yet.", _LAG_LABELS)
LAG_MILLIS = Metric(
    "rocketmq_consumer_lag_latency_milliseconds",
    _G,
    "Age of the oldest message not consumed; 0 if there is none.",
    _LAG_LABELS,
)
IN_FLIGHT = Metric(
    "rocketmq_consumer_inflight_messages", _G, "Messages delivered to the group and not consumed yet.", _LAG_LABELS
)
READY = Metric("rocketmq_consumer_ready_messages", _G, "Messages not delivered to the group yet.", _LAG_LABELS)
READY_MILLIS = Metric(
    "rocketmq_consumer_queueing_latency_milliseconds",
    _G,
    "Age of the oldest message not delivered; 0 if there is none.",
    _LAG_LABELS,
)
DEAD_LETTERS = Metric(
    "rocketmq_send_to_dlq_messages_total",
    _C,
    "Messages sent to dead letter queues, by the topic they were consumed from.",
    _GROUP_LABELS,
)
COMMITTED = Metric("rocketmq_commit_messages_total", _C, "Transactions committed.", ("topic",))
ROLLED_BACK = Metric("rocketmq_rollback_messages_total", _C, "Transactions rolled back.", ("topic",))
FINISH_SECONDS = Metric(
    "rocketmq_finish_message_latency_milliseconds",
    _H,
    "Duration of committed transactions, in seconds as in Java, despite the name.",
    ("topic",),
)
TOPIC_CREATION = Metric(
    "rocketmq_topic_create_execution_time_milliseconds",
    _H,
    "Duration of requests that create or change topics.",
    ("invocation_status", "is_system"),
)
GROUP_CREATION = Metric(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    _H,
    "Duration of requests that create or change consumer groups.",
    ("invocation_status",),
)
POP_OFFSETS = Metric(
    "rocketmq_pop_offset_buffer_size", _G, "Offsets of pops that will be committed when their checkpoints are durable."
)
POP_CHECKPOINTS = Metric(
    "rocketmq_pop_checkpoint_buffer_size",
    _G,
    "Checkpoints read from the revive topic that are not acknowledged or revived yet.",
)
REVIVE_LAG = Metric(
    "rocketmq_pop_revive_lag_milliseconds",
    _G,
    "Messages in the revive topic that are not processed yet; a number of messages as in Java, despite the name.",
    ("queue_id",),
)
REVIVE_MILLIS = Metric(
    "rocketmq_pop_revive_latency_milliseconds",
    _G,
    "Age of the oldest message in the revive topic that is not processed yet; 0 if there is none.",
    ("queue_id",),
)
REVIVE_IN = Metric(
    "rocketmq_pop_revive_in_message_total",
    _C,
    "Checkpoints (CK) and acknowledgements (ACK) written to the revive topic.",
    ("topic", "consumer_group", "revive_message_type", "put_status"),
)
REVIVE_OUT = Metric(
    "rocketmq_pop_revive_out_message_total",
    _C,
    "Checkpoints (CK) and acknowledgements (ACK) read from the revive topic.",
    ("topic", "consumer_group", "queue_id", "revive_message_type"),
)
REVIVED = Metric(
    "rocketmq_pop_revive_retry_messages_total",
    _C,
    "Messages that were popped, not acknowledged in time, and stored again for retry.",
    ("topic", "consumer_group", "put_status"),
)
STORAGE_SIZE = Metric("rocketmq_storage_size_bytes", _G, "Size of the commit log.", _STORAGE_LABELS)
FLUSH_BEHIND = Metric(
    "rocketmq_storage_flush_behind_bytes",
    _G,
    "Bytes of the commit log that are not flushed to disk yet.",
    _STORAGE_LABELS,
)
DISPATCH_BEHIND = Metric(
    "rocketmq_storage_dispatch_behind_bytes",
    _G,
    "Bytes of the commit log that are not dispatched to consume queues yet.",
    _STORAGE_LABELS,
)
RESERVE_MILLIS = Metric(
    "rocketmq_storage_message_reserve_time_milliseconds",
    _G,
    "Age of the oldest message in the commit log.",
    _STORAGE_LABELS,
)
TIMER_ENQUEUE_LAG = Metric(
    "rocketmq_timer_enqueue_lag", _G, "Timer messages that are not in the timer wheel yet.", _STORAGE_LABELS
)
TIMER_ENQUEUE_MILLIS = Metric(
    "rocketmq_timer_enqueue_latency_milliseconds",
    _G,
    "Age of the oldest message that is not in the timer wheel yet; 0 if there is none.",
    _STORAGE_LABELS,
)
TIMER_DEQUEUE_LAG = Metric(
    "rocketmq_timer_dequeue_lag", _G, "Messages in the timer wheel that are not due yet.", _STORAGE_LABELS
)
TIMER_ENQUEUED = Metric(
    "rocketmq_timer_enqueue_total",
    _C,
    "Timer messages put into the timer wheel; a message with a long delay is counted once per round.",
    ("topic", *_STORAGE_LABELS),
)
TIMER_DEQUEUED = Metric(
    "rocketmq_timer_dequeue_total",
    _C,
    "Timer messages taken out of the timer wheel, for delivery or for another round.",
    ("topic", *_STORAGE_LABELS),
)
TIMER_SNAPSHOT = Metric(
    "rocketmq_timer_message_snapshot",
    _G,
    "Messages that are due within `timer_bound_s` seconds, but not within the next smaller bound.",
    ("timer_bound_s", *_STORAGE_LABELS),
)
TIMER_DELAYS = Metric(
    "rocketmq_delay_message_latency_seconds", _H, "Delays requested for timer messages.", ("topic", *_STORAGE_LABELS)
)
TIMER_DEQUEUE_MILLIS = Metric(
    "rocketmq_timer_dequeue_latency_milliseconds",
    _G,
    "How far delivery of timer messages is behind the clock.",
    _STORAGE_LABELS,
)
TIMING = Metric(
    "rocketmq_timing_messages", _G, "Timer messages that are not delivered yet.", ("topic", *_STORAGE_LABELS)
)
# Metrics that RocketMQ does not have.
DISK_RATIO = Metric("kerolox_disk_used_ratio", _G, "Used share of the disk of the commit log, from 0 to 1.")
PUT_PERCENTILES = Metric(
    "kerolox_put_latency_milliseconds", _G, "Percentiles of the put latency in the last minute.", ("quantile",)
)
PUT_LATENCY = Metric("kerolox_put_milliseconds", _H, "Put latency of requests.")
ROLE = Metric("kerolox_broker_role", _G, "1 for the role of the broker: ASYNC_MASTER, SYNC_MASTER or SLAVE.", ("role",))
REPLICA_LAG = Metric(
    "kerolox_replica_lag_bytes",
    _G,
    "On a master, bytes of the log that a connected slave does not hold yet.",
    ("slave",),
)
REPLICAS_IN_SYNC = Metric(
    "kerolox_replicas_in_sync", _G, "On a master, slaves that are less than haMaxGapNotInSync behind."
)
REPLICATION_CONNECTED = Metric(
    "kerolox_replication_connected", _G, "On a slave, whether it is connected to its master's log."
)
METADATA_AGE = Metric(
    "kerolox_metadata_age_seconds", _G, "On a slave, seconds since topics, groups and offsets were last copied."
)

# All of the above, in order of declaration.
METRICS = tuple(it for it in list(globals().values()) if isinstance(it, Metric))
