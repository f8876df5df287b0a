"""Where in a queue to begin, and where it begins and ends."""

from datetime import datetime
from enum import Enum

from kerolox.client.consumer.brokers import Brokers
from kerolox.client.consumer.offsets import Offsets
from kerolox.client.names import RETRY_PREFIX
from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Request
from kerolox.wire.headers.offsets import GetMaxOffset, GetMinOffset, OffsetFound, SearchOffset


class ConsumeFrom(Enum):
    """Where a group begins in a queue that it has never read; otherwise it goes on where it was."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


async def max_offset(brokers: Brokers, queue: MessageQueue) -> int:
    """Returns the offset that the next message will have."""
    return await _ask(brokers, queue, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))


async def min_offset(brokers: Brokers, queue: MessageQueue) -> int:
    return await _ask(brokers, queue, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))


async def offset_at(brokers: Brokers, queue: MessageQueue, millis: int) -> int:
    """Returns the first offset that was stored at a time, or after it."""
    return await _ask(brokers, queue, SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=millis))


async def start_offset(
    brokers: Brokers, offsets: Offsets, queue: MessageQueue, begin: ConsumeFrom, timestamp: datetime | None = None
) -> int:
    """Returns where to go on, or to begin; KeroloxError if that cannot be known now, and then nothing must be read."""
    stored = await offsets.stored(queue)
    if stored is not None and stored >= 0:
        return stored
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if begin is ConsumeFrom.FIRST_OFFSET:
        # Where nothing is left at 0, the broker says so, and where to go on.
        return 0
    if begin is ConsumeFrom.TIMESTAMP and not is_retry:
        assert timestamp is not None
        return await offset_at(brokers, queue, int(timestamp.timestamp() * 1000))
    if begin is ConsumeFrom.LAST_OFFSET and is_retry:
        return 0
    return await max_offset(brokers, queue)


async def _ask(brokers: Brokers, queue: MessageQueue, request: Request[OffsetFound]) -> int:
    address = brokers.routes.address(queue.broker_name)
    if address is None:
        raise ConnectFailed(f"no address of broker {queue.broker_name} is known")
    found = (await brokers.call(address, request)).fields.offset
    if found is None or found < 0:
        raise KeroloxError(f"broker {queue.broker_name} says offset {found} of queue {queue}")
    return found
