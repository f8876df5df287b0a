"""System topics of a broker, their permissions, and the groups that the broker itself uses (TopicValidator)."""

from collections.abc import Iterator
from typing import Final

from kerolox.broker.config import BrokerConfig
from kerolox.store.delay.delay_levels import SCHEDULE_TOPIC
from kerolox.wire.bodies.topics import Perm, TopicConfig

TEMPLATE_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
# Groups of the broker's own consumers.
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_PREFIX = "rmq_sys_"
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"

# Producers may not send to these.
NOT_FOR_PRODUCERS = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, CHECK_MAX_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT}
)
# System topics by name, whether they exist on this broker or not.
RESERVED_TOPICS = frozenset(
    {*NOT_FOR_PRODUCERS, TEMPLATE_TOPIC, BENCHMARK_TOPIC, "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC", TIMER_TOPIC}
)

_READ_WRITE = Perm.READ | Perm.WRITE
_ALL = _READ_WRITE | Perm.INHERIT


def revive_topic(config: BrokerConfig) -> str:
    return f"{SYSTEM_PREFIX}REVIVE_LOG_{config.broker_cluster_name}"


def reply_topic(config: BrokerConfig) -> str:
    return f"{config.broker_cluster_name}_REPLY_TOPIC"


def is_system_topic(topic: str, names: frozenset[str] = frozenset()) -> bool:
    return topic in RESERVED_TOPICS or topic in names or topic.startswith(SYSTEM_PREFIX)


def system_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    """Yield the topics that every broker has from its start on."""
    cluster, name = config.broker_cluster_name, config.broker_name
    yield _topic(SELF_TEST_TOPIC, 1)
    if config.auto_create_topic_enable:
        yield _topic(TEMPLATE_TOPIC, config.default_topic_queue_nums, _ALL)
    yield _topic(BENCHMARK_TOPIC, 1024)
    yield _topic(cluster, 16, _ALL if config.cluster_topic_enable else Perm.INHERIT)
    yield _topic(name, 1, _ALL if config.broker_topic_enable else Perm.INHERIT)
    yield _topic(OFFSET_MOVED_EVENT, 1)
    yield _topic(SCHEDULE_TOPIC, 18)
    if config.trace_topic_enable:
        yield _topic(config.msg_trace_topic_name, 1)
    yield _topic(reply_topic(config), 1)
    yield _topic(revive_topic(config), config.revive_queue_num)
    yield _topic(f"{SYSTEM_PREFIX}SYNC_BROKER_MEMBER_{name}", 1, Perm.INHERIT)
    yield _topic(HALF_TOPIC, 1)
    yield _topic(OP_TOPIC, 1)
    yield _topic(TIMER_TOPIC, 1)


def _topic(name: str, queues: int, perm: int = _READ_WRITE) -> TopicConfig:
    return TopicConfig(attributes={}, perm=int(perm), read_queue_nums=queues, topic_name=name, write_queue_nums=queues)
