"""Java's output letter for letter: the iteration order of HashMap, toString of RocketMQ's classes, fastjson's JSON."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kerolox.admin.messages import Track
from kerolox.client.messages import SendResult
from kerolox.client.session.members import DirectResult
from kerolox.errors import AnswerError
from kerolox.message.tags import java_hash
from kerolox.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import Perm, TopicConfig

K = TypeVar("K")
V = TypeVar("V")

_INT_MASK = 0xFFFFFFFF
_LOAD_FACTOR = 0.75


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = 16) -> list[K]:
    """Return the keys in the iteration order of a Java HashMap into which they were put in the given order."""
    distinct = list(dict.fromkeys(keys))
    while len(distinct) > capacity * _LOAD_FACTOR:
        capacity *= 2

    def bucket(key: K) -> int:
        number = hash_of(key) & _INT_MASK
        return (number ^ number >> 16) & (capacity - 1)

    return sorted(distinct, key=bucket)


def in_hash_order(table: Mapping[str, V], capacity: int = 16) -> dict[str, V]:
    return {key: table[key] for key in hash_order(table, java_hash, capacity)}


def queues_in_hash_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    return hash_order(queues, _queue_hash)


def _queue_hash(queue: MessageQueue) -> int:
    number = 1
    for part in (java_hash(queue.broker_name), queue.queue_id, java_hash(queue.topic)):
        number = number * 31 + part
    return number


def text(value: object) -> str:
    """Return a value as Java's string concatenation does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}={text(item)}" for key, item in value.items()) + "}"
    return str(value)


def to_string(name: str, values: Iterable[tuple[str, object]]) -> str:
    """Return `Name [key=value, key=value]`."""
    return f"{name} [" + ", ".join(f"{key}={text(value)}" for key, value in values) + "]"


def queue(it: MessageQueue) -> str:
    return to_string("MessageQueue", (("topic", it.topic), ("brokerName", it.broker_name), ("queueId", it.queue_id)))


def perm(bits: int) -> str:
    letters = ((Perm.READ, "R"), (Perm.WRITE, "W"), (Perm.INHERIT, "X"))
    return "".join(letter if bits & bit else "-" for bit, letter in letters)


def topic_config(config: TopicConfig) -> str:
    return to_string(
        "TopicConfig",
        (
            ("topicName", config.topic_name),
            ("readQueueNums", config.read_queue_nums),
            ("writeQueueNums", config.write_queue_nums),
            ("perm", perm(config.perm)),
            ("topicFilterType", config.topic_filter_type),
            ("topicSysFlag", config.topic_sys_flag),
            ("order", config.order),
            *([("attributes", config.attributes)] if config.attributes else []),
        ),
    )


def group_fields(config: SubscriptionGroupConfig) -> dict[str, object]:
    """Return the settings of a group in the order of Java's class."""
    return {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
    }


def group_config(config: SubscriptionGroupConfig) -> str:
    return to_string("SubscriptionGroupConfig", group_fields(config).items())


def group_config_5x(config: SubscriptionGroupConfig) -> str:
    """Return toString of a group in RocketMQ 5.x."""
    policy = config.group_retry_policy or GroupRetryPolicy()
    policies = {
        "type": policy.type,
        "exponentialRetryPolicy": _curly("ExponentialRetryPolicy", policy.exponential_retry_policy),
        "customizedRetryPolicy": _curly("CustomizedRetryPolicy", policy.customized_retry_policy),
    }
    return _curly(
        "SubscriptionGroupConfig",
        {
            "groupName": config.group_name,
            "consumeEnable": config.consume_enable,
            "consumeFromMinEnable": config.consume_from_min_enable,
            "consumeBroadcastEnable": config.consume_broadcast_enable,
            "consumeMessageOrderly": config.consume_message_orderly,
            "retryQueueNums": config.retry_queue_nums,
            "retryMaxTimes": config.retry_max_times,
            "groupRetryPolicy": _curly("GroupRetryPolicy", policies),
            "brokerId": config.broker_id,
            "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
            "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
            "groupSysFlag": config.group_sys_flag,
            "consumeTimeoutMinute": config.consume_timeout_minute,
            "subscriptionDataSet": config.subscription_data_set,
            "attributes": config.attributes or {},
        },
    )


def _curly(name: str, values: Mapping[str, object] | None) -> str:
    """Return `Name{key=value, key=value}`."""
    return "null" if values is None else name + text(values)


def send_result(result: SendResult) -> str:
    return to_string(
        "SendResult",
        (
            ("sendStatus", result.status.value),
            ("msgId", result.message_id),
            ("offsetMsgId", result.offset_id),
            ("messageQueue", queue(result.queue)),
            ("queueOffset", result.queue_offset),
        ),
    )


def direct_result(result: DirectResult) -> str:
    return to_string(
        "ConsumeMessageDirectlyResult",
        (
            ("order", result.order),
            ("autoCommit", result.auto_commit),
            ("consumeResult", result.consume_result),
            ("remark", result.remark),
            ("spentTimeMills", result.spent_time_mills),
        ),
    )


def track(it: Track) -> str:
    return to_string(
        "MessageTrack",
        (("consumerGroup", it.group), ("trackType", it.type.value), ("exceptionDesc", _exception_desc(it))),
    )


def _exception_desc(it: Track) -> str | None:
    if isinstance(it.error, AnswerError):
        return f"CODE:{int(it.error.code)} DESC:{it.error.remark}"
    return None if it.error is None else str(it.error)


# JSON, as fastjson pretty-prints it


def pretty_json(value: Any, depth: int = 0) -> str:
    """Return JSON indented with tabs. Fields of classes are in alphabetical order, entries of maps in map order.

    Integer keys have no quotes and no line of their own; lists of plain values are on one line.
    """
    if isinstance(value, msgspec.Struct):
        names = sorted(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        value = {name: getattr(value, field) for name, field in names}
    if isinstance(value, Mapping):
        return _map(value, depth)
    if isinstance(value, (list, tuple, set)):
        return _list(list(value), depth)
    return json.dumps(value, ensure_ascii=False)


def _map(table: Mapping[Any, Any], depth: int) -> str:
    parts = []
    for key, item in table.items():
        if item is None:
            continue
        start = f"\n{_tabs(depth + 1)}{json.dumps(key, ensure_ascii=False)}" if isinstance(key, str) else str(key)
        parts.append(f"{start}:{pretty_json(item, depth + 1)}")
    return "{" + ",".join(parts) + (f"\n{_tabs(depth)}" if parts else "") + "}"


def _list(items: Sequence[Any], depth: int) -> str:
    if not any(isinstance(item, (msgspec.Struct, Mapping, list)) for item in items):
        return "[" + ",".join(pretty_json(item) for item in items) + "]"
    lines = ",".join(f"\n{_tabs(depth + 1)}{pretty_json(item, depth + 1)}" for item in items)
    return f"[{lines}\n{_tabs(depth)}]"


def _tabs(depth: int) -> str:
    return "\t" * depth
