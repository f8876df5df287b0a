"""What a consumer says of itself to operators, in the words of Java's."""

import sys
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kerolox.client.consumer.reading import Reader
from kerolox.codes import CURRENT_VERSION
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

if TYPE_CHECKING:
    from kerolox.client.consumer.member import GroupMember


def running_info(member: "GroupMember", readers: Iterable[Reader], *, has_stacks: bool) -> ConsumerRunningInfo:
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


def _queue_info(member: "GroupMember", reader: Reader) -> ProcessQueueInfo:
    window, queue, locks = reader.window, reader.queue, member.locks
    taken = window.taken
    return ProcessQueueInfo(
        commit_offset=member.offsets.get(queue) or 0,
        cached_msg_min_offset=window.first_offset or 0,
        cached_msg_max_offset=window.last_offset or 0,
        cached_msg_count=window.count,
        cached_msg_size_in_mi_b=window.size >> 20,
        transaction_msg_min_offset=taken[0].queue_offset if taken else 0,
        transaction_msg_max_offset=taken[-1].queue_offset if taken else 0,
        transaction_msg_count=len(taken),
        locked=locks is not None and locks.is_locked(queue),
        last_lock_timestamp=0 if locks is None else locks.locked_millis(queue),
        is_dropped=window.is_dropped,
        last_pull_timestamp=reader.last_pull_millis,
        last_consume_timestamp=reader.last_consume_millis,
    )


def _stacks() -> str:
    """Returns where each thread is, which is what Java's operators ask for."""
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{named.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
