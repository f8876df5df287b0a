"""Offsets of queues, and the entries of consume queues."""

from datetime import datetime
from typing import TypeAlias

from kerolox.admin.targets import Servers
from kerolox.wire.bodies.offsets import ConsumeQueueData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import offsets as o

# Milliseconds since 1970, or a datetime; a naive one is in local time.
Timestamp: TypeAlias = datetime | int


class Queues:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still stored."""
        return await self.min_at(await self._servers.readable_address(queue.broker_name), queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        return await self.max_at(await self._servers.readable_address(queue.broker_name), queue)

    async def search(self, queue: MessageQueue, moment: Timestamp, *, is_upper: bool = False) -> int:
        """Return the offset of the first message stored at a timestamp or later; the max offset if there is none.

        4.x brokers return the offset of the last message in that case. With `is_upper`, return the last message stored
        at that time or before, which 4.x brokers do not support.
        """
        address = await self._servers.readable_address(queue.broker_name)
        return await self.search_at(address, queue, to_millis(moment), is_upper=is_upper)

    async def earliest_millis(self, queue: MessageQueue) -> int | None:
        """Return the store timestamp of the first message that is still stored; None if there is none."""
        request = o.GetEarliestMsgStoretime(topic=queue.topic, queue_id=queue.queue_id)
        reply = await self._servers.call(await self._servers.readable_address(queue.broker_name), request)
        return None if reply.fields.timestamp < 0 else reply.fields.timestamp

    async def entries(
        self, queue: MessageQueue, offset: int, count: int = 10, *, group: str | None = None
    ) -> ConsumeQueueData | None:
        """Return consume queue entries as stored on disk, with the subscription of `group` if given.

        None if the queue has nothing at this offset.
        """
        request = b.QueryConsumeQueue(
            topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count, consumer_group=group
        )
        reply = await self._servers.call(await self._servers.readable_address(queue.broker_name), request)
        return ConsumeQueueData.decode(reply.body) if reply.body else None

    # By the address of the broker

    async def min_at(self, address: str, queue: MessageQueue) -> int:
        reply = await self._servers.call(address, o.GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))
        return reply.fields.offset or 0

    async def max_at(self, address: str, queue: MessageQueue) -> int:
        reply = await self._servers.call(address, o.GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))
        return reply.fields.offset or 0

    async def search_at(self, address: str, queue: MessageQueue, millis: int, *, is_upper: bool = False) -> int:
        request = o.SearchOffset(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=millis,
            boundary_type="UPPER" if is_upper else None,
        )
        return (await self._servers.call(address, request)).fields.offset or 0


def to_millis(timestamp: Timestamp) -> int:
    return int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
