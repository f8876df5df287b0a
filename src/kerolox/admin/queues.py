"""Queues: where they begin and end, and what lies in them by entry."""

from kerolox.admin.moments import Moment, to_millis
from kerolox.admin.servers import Servers
from kerolox.wire.bodies.offsets import ConsumeQueueData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import offsets as o


class Queues:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the first message that is still there."""
        return await self.min_at(await self._servers.address(queue.broker_name), queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will have."""
        return await self.max_at(await self._servers.address(queue.broker_name), queue)

    async def search(self, queue: MessageQueue, moment: Moment, *, is_upper: bool = False) -> int:
        """Returns the offset of the first message stored at a time or later; if none was, that of the next.

        Brokers of 4.x then give that of the last one. With `is_upper` it is the last one stored at that time or
        before, which they do not know.
        """
        address = await self._servers.address(queue.broker_name)
        return await self.search_at(address, queue, to_millis(moment), is_upper=is_upper)

    async def earliest_millis(self, queue: MessageQueue) -> int | None:
        """Returns when the first message that is still there was stored; None if there is none."""
        request = o.GetEarliestMsgStoretime(topic=queue.topic, queue_id=queue.queue_id)
        reply = await self._servers.call(await self._servers.address(queue.broker_name), request)
        return None if reply.fields.timestamp < 0 else reply.fields.timestamp

    async def entries(
        self, queue: MessageQueue, offset: int, count: int = 10, *, group: str | None = None
    ) -> ConsumeQueueData | None:
        """Returns entries of a queue as they lie on the disk, and what a group subscribes to if one is given.

        None if the queue has nothing at this offset.
        """
        request = b.QueryConsumeQueue(
            topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count, consumer_group=group
        )
        reply = await self._servers.call(await self._servers.address(queue.broker_name), request)
        return ConsumeQueueData.decode(reply.body) if reply.body else None

    # Of a broker whose address is known

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
