"""The running info of a consumer for `mqadmin consumerStatus`, with Java's keys (ConsumerRunningInfo)."""

import sys
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kerolox.client.consumer.fetch.queue_reader import QueueReader
from kerolox.codes import CURRENT_VERSION
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

if TYPE_CHECKING:
    from kerolox.client.consumer.group.member import GroupMember


def running_info(member: "GroupMember", readers: Iterable[QueueReader], *, has_stacks: bool) -> ConsumerRunningInfo:
    table: dict[MessageQueue, ProcessQueueInfo] = {}
    for reader in readers:
        table[reader.queue] = _queue_info(member, reader)
    return ConsumerRunningInfo(
        jstack=_stacks() if has_stacks else None,
        mq_table=table,
        properties={
            "PROP_CLIENT_VERSION": CURRENT_VERSION.name,
            "PROP_CONSUME_TYPE": member.consume_type,
            "PROP_CONSUMEORDERLY": "true" if member.is_orderly else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(member.started_millis),
            "PROP_NAMESERVER_ADDR": member.options.namesrv_url or ";".join(member.options.name_servers),
            "PROP_THREADPOOL_CORE_SIZE": str(member.concurrency),
        },
        status_table=member.statistics.status(),
        subscription_set=list(member.subscriptions()),
    )


def _queue_info(member: "GroupMember", reader: QueueReader) -> ProcessQueueInfo:
    process_queue, queue, locks = reader.process_queue, reader.queue, member.locks
    taken = process_queue.taken
    return ProcessQueueInfo(
        commit_offset=member.offsets.get(queue) or 0,
        cached_msg_min_offset=process_queue.first_offset or 0,
        cached_msg_max_offset=process_queue.last_offset or 0,
        cached_msg_count=process_queue.count,
        cached_msg_size_in_mi_b=process_queue.size >> 20,
        transaction_msg_min_offset=taken[0].queue_offset if taken else 0,
        transaction_msg_max_offset=taken[-1].queue_offset if taken else 0,
        transaction_msg_count=len(taken),
        locked=locks is not None and locks.is_locked(queue),
        last_lock_timestamp=0 if locks is None else locks.locked_millis(queue),
        is_dropped=process_queue.is_dropped,
        last_pull_timestamp=reader.last_pull_millis,
        last_consume_timestamp=process_queue.last_consume_millis,
    )


def _stacks() -> str:
    """Return the stack of each thread, like Java's jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
