"""Formats and analyzes the running info of consumers as Java does (ConsumerRunningInfo)."""

from collections.abc import Mapping

from kerolox.cli.admin import java_format
from kerolox.cli.admin.consumers.offsets import queue_sort_key
from kerolox.cli.admin.java_times import compact_text
from kerolox.cli.admin.output import Table, key_value_lines
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

# A group whose first client started within this time is not analyzed: rebalancing may still be under way.
_STARTING_MILLIS = 2 * 60 * 1000
# A queue with cached messages of which none was consumed for this long is stuck.
_IDLE_MILLIS = 60 * 1000


def format_running_info(info: ConsumerRunningInfo) -> str:
    subscriptions = sorted(info.subscription_set, key=lambda it: f"{it.topic}@{it.sub_string}")
    lines = [
        f"{number:03d} Topic: {it.topic:<40} ClassFilter: {java_format.text(it.class_filter_mode):<8} "
        f"SubExpression: {it.sub_string}\n"
        for number, it in enumerate(subscriptions, 1)
    ]
    queues = [(queue, info.mq_table[queue]) for queue in sorted(info.mq_table, key=queue_sort_key)]
    columns = ("#Topic", "#Broker Name", "#QID")
    heading = "%-64s  %-32s  %-4s  %-20s"
    offsets = Table(
        "%-32s  %-32s  %-4d  %-20d",
        (*columns, "#Consumer Offset"),
        [(queue.topic, queue.broker_name, queue.queue_id, it.commit_offset) for queue, it in queues],
        heading,
    )
    details = Table(
        "%-64s  %-32s  %-4d  %s",
        (*columns, "#ProcessQueueInfo"),
        [(queue.topic, queue.broker_name, queue.queue_id, _process_queue(it)) for queue, it in queues],
        heading,
    )
    parts = [
        ("Properties", key_value_lines(java_format.in_hash_order(info.properties).items(), "%-40s: %s")),
        ("Subscription", "".join(lines)),
        ("Offset", offsets.text()),
        ("MQ Detail", details.text()),
        ("RT&TPS", _rates(info).text()),
        *([("jstack", info.jstack)] if info.jstack is not None else []),
    ]
    return "\n\n".join(f"#Consumer {name}#\n{text}" for name, text in parts)


def _rates(info: ConsumerRunningInfo) -> Table:
    columns = (
        *("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS"),
        *("#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour"),
    )
    rows = [
        (
            *(topic, it.pull_rt, it.pull_tps, it.consume_rt),
            *(it.consume_ok_tps, it.consume_failed_tps, it.consume_failed_msgs),
        )
        for topic, it in sorted(info.status_table.items())
    ]
    layout, heading = "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d", "%-64s  %14s %14s %14s %14s %18s %25s"
    return Table(layout, columns, rows, heading)


def _process_queue(it: ProcessQueueInfo) -> str:
    return java_format.to_string(
        "ProcessQueueInfo",
        (
            ("commitOffset", it.commit_offset),
            ("cachedMsgMinOffset", it.cached_msg_min_offset),
            ("cachedMsgMaxOffset", it.cached_msg_max_offset),
            ("cachedMsgCount", it.cached_msg_count),
            ("cachedMsgSizeInMiB", it.cached_msg_size_in_mi_b),
            ("transactionMsgMinOffset", it.transaction_msg_min_offset),
            ("transactionMsgMaxOffset", it.transaction_msg_max_offset),
            ("transactionMsgCount", it.transaction_msg_count),
            ("locked", it.locked),
            ("tryUnlockTimes", it.try_unlock_times),
            ("lastLockTimestamp", compact_text(it.last_lock_timestamp)),
            ("droped", it.is_dropped),
            ("lastPullTimestamp", compact_text(it.last_pull_timestamp)),
            ("lastConsumeTimestamp", compact_text(it.last_consume_timestamp)),
        ),
    )


def analysis(infos: Mapping[str, ConsumerRunningInfo], now_millis: int) -> str:
    """Return Java's verdict on the subscriptions and queues of a group's clients; empty if there are none."""
    if not infos:
        return ""
    if not has_equal_subscriptions(infos, now_millis):
        return "\n\nWARN: Different subscription in the same group of consumer!!!"
    stuck = "".join(stuck_queues(client_id, info, now_millis) for client_id, info in sorted(infos.items()))
    return f"\n\nSame subscription in the same group of consumer\n\nRebalance OK\n{stuck}"


def has_equal_subscriptions(infos: Mapping[str, ConsumerRunningInfo], now_millis: int) -> bool:
    """Whether all clients have the same subscriptions; True for a group that has just started."""
    first = infos[min(infos)]
    started = int(first.properties.get("PROP_CONSUMER_START_TIMESTAMP", "0"))
    if not _is_push_consumer(first) or now_millis - started <= _STARTING_MILLIS:
        return True
    subscriptions = [{(it.topic, it.sub_string) for it in info.subscription_set} for info in infos.values()]
    return bool(subscriptions[0]) and all(it == subscriptions[0] for it in subscriptions)


def stuck_queues(client_id: str, info: ConsumerRunningInfo, now_millis: int) -> str:
    """Return a line for each queue that the client cannot lock, unlock or consume (analyzeProcessQueue)."""
    if not _is_push_consumer(info):
        return ""
    is_orderly = info.properties.get("PROP_CONSUMEORDERLY") == "true"
    lines = [
        _lock_problem(queue, it, now_millis) if is_orderly else _consume_problem(queue, it, now_millis)
        for queue, it in sorted(info.mq_table.items(), key=lambda pair: queue_sort_key(pair[0]))
    ]
    return "".join(f"{client_id} {line}\n" for line in lines if line)


def _lock_problem(queue: MessageQueue, it: ProcessQueueInfo, now_millis: int) -> str | None:
    if not it.locked:
        return f"{java_format.queue(queue)} can't lock for a while, {now_millis - it.last_lock_timestamp}ms"
    if it.is_dropped and it.try_unlock_times > 0:
        return f"{java_format.queue(queue)} unlock {it.try_unlock_times} times, still failed"
    return None


def _consume_problem(queue: MessageQueue, it: ProcessQueueInfo, now_millis: int) -> str | None:
    idle = now_millis - it.last_consume_timestamp
    if idle > _IDLE_MILLIS and it.cached_msg_count > 0:
        return f"{java_format.queue(queue)} can't consume for a while, maybe blocked, {idle}ms"
    return None


def _is_push_consumer(info: ConsumerRunningInfo) -> bool:
    return info.properties.get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"
