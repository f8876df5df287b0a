"""Consumers say that they have consumed a message, or that they need more time."""

import base64
import binascii

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import InvalidParameter, NoMessage
from kerolox.broker.groups import GroupTable
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.checkpoints import Ack, Checkpoint, ReviveLog
from kerolox.broker.pop.counts import ACK, CHECKPOINT, PopCounts
from kerolox.broker.pop.inflight import Inflight
from kerolox.broker.pop.names import ORDER_REVIVE_QUEUE, Receipt, parse_receipt, real_topic
from kerolox.broker.pop.orders import Orders
from kerolox.broker.pop.popping import Popping
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing
from kerolox.broker.topics import TopicTable
from kerolox.message.errors import MessageIllegal
from kerolox.runtime.clock import Clock
from kerolox.store.store import Store
from kerolox.wire.bodies.pop import BatchAck
from kerolox.wire.headers.pop import AckMessage, ChangeMessageInvisibleTime, InvisibleTimeChanged

# Bounds the original does not have.
_BATCHES_MAX = 1024
_BIT_SET_SIZE_MAX = 8 * 1024
_LONG_MAX = 2**63 - 1


class Acks:
    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        storing: Storing,
        orders: Orders,
        inflight: Inflight,
        revive_log: ReviveLog,
        popping: Popping,
        statistics: Statistics,
        counts: PopCounts,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._storing = storing
        self._orders = orders
        self._inflight = inflight
        self._revive_log = revive_log
        self._popping = popping
        self._statistics = statistics
        self._counts = counts
        self._clock = clock

    async def ack(self, request: AckMessage) -> None:
        low, high = self._check(request)
        if not low <= request.offset <= high:
            key = f"{request.topic}@{request.queue_id}"
            raise NoMessage(f"offset is illegal, key:{key}, commit:{request.offset}, store:{low}~{high}")
        receipt = parse_receipt(request.extra_info)
        await self._ack(request, receipt)

    async def _ack(self, request: AckMessage | ChangeMessageInvisibleTime, receipt: Receipt) -> None:
        topic, group, queue_id = request.topic, request.consumer_group, request.queue_id
        if receipt.is_ordered:
            self._ack_ordered(topic, group, queue_id, request.offset, receipt.pop_time, receipt.invisible_time)
            return
        ack = Ack(
            offset=request.offset,
            broker_name=receipt.broker_name,
            group=group,
            pop_time=receipt.pop_time,
            queue_id=queue_id,
            start_offset=receipt.start_offset,
            topic=topic,
        )
        await self._append(ack, receipt.revive_queue_id, receipt.invisible_time, 1)

    async def batch(self, broker_name: str | None, batches: list[BatchAck]) -> None:
        if not batches:
            raise NoMessage("no acks")
        if len(batches) > _BATCHES_MAX:
            raise InvalidParameter(f"{len(batches)} acks in one request, at most {_BATCHES_MAX} allowed")
        for batch in batches:
            self._groups.find(batch.consumer_group)
        for batch in batches:
            await self._batch(broker_name or self._config.broker_name, batch)

    async def _batch(self, broker_name: str, batch: BatchAck) -> None:
        topic = real_topic(batch.topic, batch.consumer_group, batch.retry)
        queue = self._store.queues.get(topic, batch.queue_id)
        if queue is None:
            return
        wanted = [batch.start_offset + bit for bit in _bits(batch.bit_set)]
        offsets = [offset for offset in wanted if queue.min_offset <= offset <= queue.max_offset]
        if batch.revive_queue_id == ORDER_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_ordered(
                    topic, batch.consumer_group, batch.queue_id, offset, batch.pop_time, batch.invisible_time
                )
            return
        if not offsets:
            return
        ack = Ack(
            offset=-1,
            offsets=offsets,
            broker_name=broker_name,
            group=batch.consumer_group,
            pop_time=batch.pop_time,
            queue_id=batch.queue_id,
            start_offset=batch.start_offset,
            topic=topic,
        )
        await self._append(ack, batch.revive_queue_id, batch.invisible_time, len(offsets))

    async def _append(self, ack: Ack, revive_queue_id: int, invisible_time: int, count: int) -> None:
        self._check_revive_queue(revive_queue_id)
        await self._storing.put(self._revive_log.ack(ack, revive_queue_id, ack.pop_time + invisible_time))
        self._counts.written.add(ack.topic, ack.group, ACK)
        self._inflight.settled(ack.topic, ack.group, ack.queue_id, ack.pop_time, count)
        self._statistics.add("GROUP_ACK_NUMS", ack.topic, ack.group, count)

    def _ack_ordered(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_time: int
    ) -> None:
        committed = self._offsets.get(group, topic, queue_id)
        if committed is not None and offset < committed:
            return
        next_offset = self._orders.acked(topic, group, queue_id, offset, pop_time)
        if next_offset == -1:
            key = f"{topic}@{group}@{queue_id}"
            raise MessageIllegal(f"offset is illegal, key:{key}, old:{committed}, commit:{offset}, next:{next_offset}")
        if next_offset >= 0:
            if queue_id not in self._offsets.resets.get(f"{topic}@{group}", {}):
                self._offsets.commit(group, topic, queue_id, next_offset)
            if not self._orders.blocked_until(None, topic, group, queue_id, invisible_time):
                self._popping.on_rest(topic, group, queue_id)
        self._inflight.settled(topic, group, queue_id, pop_time)
        self._statistics.add("GROUP_ACK_NUMS", topic, group)

    # More time

    async def change(self, request: ChangeMessageInvisibleTime) -> InvisibleTimeChanged | None:
        """Has a message come again at another time; None if it was popped in order, and consumed meanwhile."""
        low, high = self._check(request)
        if not low <= request.offset < high:
            raise NoMessage(f"no message at offset {request.offset}, store:{low}~{high}")
        if not 0 <= request.invisible_time <= _LONG_MAX // 2:
            raise InvalidParameter(f"an invisible time of {request.invisible_time} ms")
        receipt = parse_receipt(request.extra_info)
        if receipt.is_ordered:
            return self._change_ordered(request, receipt)
        self._check_revive_queue(receipt.revive_queue_id)
        # Never the time of the receipt itself: its ack would be taken for one of the new checkpoint.
        now = max(self._clock.millis(), receipt.pop_time + 1)
        checkpoint = Checkpoint(
            broker_name=receipt.broker_name,
            group=request.consumer_group,
            diffs=[0],
            invisible_time=request.invisible_time,
            count=1,
            pop_time=now,
            queue_id=request.queue_id,
            start_offset=request.offset,
            is_suspended=bool(request.suspend),
            topic=request.topic,
        )
        # First the new checkpoint, then the ack of the old: a crash between them doubles the message, and loses none.
        await self._storing.put(self._revive_log.checkpoint(checkpoint, receipt.revive_queue_id))
        self._counts.written.add(request.topic, request.consumer_group, CHECKPOINT)
        self._inflight.popped(request.topic, request.consumer_group, request.queue_id, 1)
        self._statistics.add("GROUP_CK_NUMS", request.topic, request.consumer_group)
        await self._ack(request, receipt)
        return InvisibleTimeChanged(
            pop_time=now, invisible_time=request.invisible_time, revive_qid=receipt.revive_queue_id
        )

    def _change_ordered(self, request: ChangeMessageInvisibleTime, receipt: Receipt) -> InvisibleTimeChanged | None:
        topic, group, queue_id = request.topic, request.consumer_group, request.queue_id
        committed = self._offsets.get(group, topic, queue_id)
        if committed is not None and request.offset < committed:
            return None
        visible = self._clock.millis() + request.invisible_time
        self._orders.change_visible_time(topic, group, queue_id, request.offset, receipt.pop_time, visible)
        # Who waits for the queue may have to wait less.
        self._popping.on_rest(topic, group, queue_id)
        return InvisibleTimeChanged(
            pop_time=receipt.pop_time, invisible_time=visible - receipt.pop_time, revive_qid=receipt.revive_queue_id
        )

    def _check(self, request: AckMessage | ChangeMessageInvisibleTime) -> tuple[int, int]:
        """Returns the offsets of the queue; AnswerError if there is none, or no such group can have popped of it."""
        topic = self._topics.find(request.topic)
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise MessageIllegal(
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{request.consumer_group}]"
            )
        # What a group has popped and acked is counted under its name.
        self._groups.find(request.consumer_group)
        queue = self._store.queues.get(request.topic, request.queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def _check_revive_queue(self, queue_id: int) -> None:
        """Receipts come from outside, and no queue is made for what they say."""
        queues = self._topics.find(self._revive_log.topic).write_queue_nums
        if not 0 <= queue_id < queues:
            raise MessageIllegal(f"revive queue {queue_id} of a receipt is none of {queues}")


def _bits(encoded: str) -> list[int]:
    """Returns which bits are set in a Java BitSet: bytes with the lowest bits first."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageIllegal(f"acked offsets cannot be read: {error}") from error
    if len(data) > _BIT_SET_SIZE_MAX:
        raise MessageIllegal(f"{len(data)} bytes of acked offsets, at most {_BIT_SET_SIZE_MAX} allowed")
    return [8 * index + bit for index, byte in enumerate(data) if byte for bit in range(8) if byte >> bit & 1]
