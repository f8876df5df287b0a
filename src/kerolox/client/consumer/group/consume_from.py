"""The offset at which a consumer begins to read a queue, and queries for offsets of a queue."""

from datetime import datetime
from enum import Enum

from kerolox.client.consumer.group.offset_store import OffsetStore
from kerolox.client.consumer.session_interface import SessionInterface
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Request
from kerolox.wire.headers.offsets import GetMaxOffset, GetMinOffset, OffsetFound, SearchOffset


class ConsumeFrom(Enum):
    """Where a group without a committed offset begins to read a queue."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


async def max_offset(session: SessionInterface, queue: MessageQueue) -> int:
    """Return the offset of the next message to be stored."""
    return await _query(session, queue, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))


async def min_offset(session: SessionInterface, queue: MessageQueue) -> int:
    return await _query(session, queue, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))


async def offset_at(session: SessionInterface, queue: MessageQueue, millis: int) -> int:
    """Return the first offset stored at this time or later."""
    return await _query(session, queue, SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=millis))


async def start_offset(
    session: SessionInterface,
    offsets: OffsetStore,
    queue: MessageQueue,
    consume_from: ConsumeFrom,
    timestamp: datetime | None = None,
) -> int:
    """Return the committed offset, or the one that `consume_from` selects.

    Raises KeroloxError if the committed offset cannot be queried; the queue must not be read then.
    """
    committed = await offsets.committed(queue)
    if committed is not None and committed >= 0:
        return committed
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if consume_from is ConsumeFrom.FIRST_OFFSET:
        # If offset 0 has expired, the broker responds to the pull with the first valid offset.
        return 0
    if consume_from is ConsumeFrom.TIMESTAMP and not is_retry:
        assert timestamp is not None
        return await offset_at(session, queue, int(timestamp.timestamp() * 1000))
    if consume_from is ConsumeFrom.LAST_OFFSET and is_retry:
        return 0
    return await max_offset(session, queue)


async def _query(session: SessionInterface, queue: MessageQueue, request: Request[OffsetFound]) -> int:
    found = session.routes.readable_address(queue.broker_name)
    if found is None:
        raise ConnectFailed(f"the address of broker {queue.broker_name} is unknown")
    _, address = found
    offset = (await session.call(address, request)).fields.offset
    if offset is None or offset < 0:
        raise KeroloxError(f"broker {queue.broker_name} returned the invalid offset {offset} for {queue}")
    return offset
