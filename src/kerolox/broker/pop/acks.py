"""Acknowledging popped messages and changing their invisible time (AckMessageProcessor)."""

import base64
import binascii
from collections.abc import Callable

from kerolox.broker.errors import InvalidParameter, NoMessage
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.checkpoints import Ack, Checkpoint
from kerolox.broker.pop.metrics import ACK, CHECKPOINT
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.receipt_handle import ORDER_REVIVE_QUEUE, ReceiptHandle, parse_receipt, real_topic
from kerolox.message.errors import MessageIllegal
from kerolox.wire.bodies.pop import BatchAck, BatchAcks
from kerolox.wire.headers.pop import AckMessage, ChangeMessageInvisibleTime, InvisibleTimeChanged

# Limits that RocketMQ does not have.
_BATCHES_MAX = 1024
_BIT_SET_SIZE_MAX = 8 * 1024
_LONG_MAX = 2**63 - 1


class Acks:
    """Executes ACK_MESSAGE, BATCH_ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME requests.

    `on_unblocked` is called with topic, group and queue when a queue that is popped in order may give messages again.
    """

    def __init__(self, parts: BrokerParts, pop: PopParts, *, on_unblocked: Callable[[str, str, int], None]) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._message_put = parts.message_put
        self._statistics = parts.statistics
        self._clock = parts.clock
        self._orders = pop.orders
        self._in_flight = pop.in_flight
        self._revive_log = pop.revive_log
        self._metrics = pop.metrics
        self._on_unblocked = on_unblocked

    async def ack(self, request: AckMessage) -> None:
        low, high = self._check(request)
        if not low <= request.offset <= high:
            key = f"{request.topic}@{request.queue_id}"
            raise NoMessage(f"offset is illegal, key:{key}, commit:{request.offset}, store:{low}~{high}")
        receipt = parse_receipt(request.extra_info)
        await self._ack(request, receipt)

    async def _ack(self, request: AckMessage | ChangeMessageInvisibleTime, receipt: ReceiptHandle) -> None:
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
        for batch in batches:
            self._groups.find(batch.consumer_group)
        for batch in batches:
            await self._batch(broker_name or self._config.broker_name, batch)

    async def _batch(self, broker_name: str, batch: BatchAck) -> None:
        topic = real_topic(batch.topic, batch.consumer_group, batch.retry)
        queue = self._store.queues.get(topic, batch.queue_id)
        if queue is None:
            return
        acked = [batch.start_offset + bit for bit in _bits(batch.bit_set)]
        offsets = [offset for offset in acked if queue.min_offset <= offset <= queue.max_offset]
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
        # The clock may have been set back since the pop. The checkpoint is settled by the present clock, so the ack
        # must not be delivered to the revive log later than that.
        popped_at = min(ack.pop_time, self._clock.millis())
        await self._message_put.put(self._revive_log.ack(ack, revive_queue_id, popped_at + invisible_time))
        self._metrics.written.add(ack.topic, ack.group, ACK)
        self._in_flight.settled(ack.topic, ack.group, ack.queue_id, ack.pop_time, count)
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
                self._offsets.file.save_soon()
            if not self._orders.blocked_until(None, topic, group, queue_id, invisible_time):
                self._on_unblocked(topic, group, queue_id)
        self._in_flight.settled(topic, group, queue_id, pop_time)
        self._statistics.add("GROUP_ACK_NUMS", topic, group)

    async def change(self, request: ChangeMessageInvisibleTime) -> InvisibleTimeChanged | None:
        """Make a message visible again at another time.

        Return None if it was popped in order and has been acknowledged meanwhile.
        """
        low, high = self._check(request)
        if not low <= request.offset < high:
            raise NoMessage(f"no message at offset {request.offset}, store:{low}~{high}")
        if not 0 <= request.invisible_time <= _LONG_MAX // 2:
            raise InvalidParameter(f"invisibleTime {request.invisible_time} ms is negative or too large")
        receipt = parse_receipt(request.extra_info)
        if receipt.is_ordered:
            return self._change_ordered(request, receipt)
        self._check_revive_queue(receipt.revive_queue_id)
        # Checkpoints are found by pop time: with the time of the old one, its ack would acknowledge the new one too.
        now = self._clock.millis()
        if now == receipt.pop_time:
            now += 1
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
        # The new checkpoint first, then the ack of the old one: a crash in between delivers the message twice, but
        # loses none.
        await self._message_put.put(self._revive_log.checkpoint(checkpoint, receipt.revive_queue_id))
        self._metrics.written.add(request.topic, request.consumer_group, CHECKPOINT)
        self._in_flight.popped(request.topic, request.consumer_group, request.queue_id, now, 1)
        self._statistics.add("GROUP_CK_NUMS", request.topic, request.consumer_group)
        await self._ack(request, receipt)
        return InvisibleTimeChanged(
            pop_time=now, invisible_time=request.invisible_time, revive_qid=receipt.revive_queue_id
        )

    def _change_ordered(
        self, request: ChangeMessageInvisibleTime, receipt: ReceiptHandle
    ) -> InvisibleTimeChanged | None:
        topic, group, queue_id = request.topic, request.consumer_group, request.queue_id
        committed = self._offsets.get(group, topic, queue_id)
        if committed is not None and request.offset < committed:
            return None
        visible = self._clock.millis() + request.invisible_time
        self._orders.change_visible_time(topic, group, queue_id, request.offset, receipt.pop_time, visible)
        # The message may become visible earlier than waiting requests expect.
        self._on_unblocked(topic, group, queue_id)
        return InvisibleTimeChanged(
            pop_time=receipt.pop_time, invisible_time=visible - receipt.pop_time, revive_qid=receipt.revive_queue_id
        )

    def _check(self, request: AckMessage | ChangeMessageInvisibleTime) -> tuple[int, int]:
        """Return the minimum and maximum offset of the queue; AnswerError if queue or group do not exist."""
        topic = self._topics.find(request.topic)
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise MessageIllegal(
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{request.consumer_group}]"
            )
        # Counters are kept by group name, so only existing groups may add some.
        self._groups.find(request.consumer_group)
        queue = self._store.queues.get(request.topic, request.queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def _check_revive_queue(self, queue_id: int) -> None:
        """Refuse a queue number, sent by the client in its receipt, that the revive topic does not have."""
        queues = self._topics.find(self._revive_log.topic).write_queue_nums
        if not 0 <= queue_id < queues:
            raise MessageIllegal(f"the receipt names revive queue {queue_id}, but there are only {queues}")


def check_batches(body: BatchAcks) -> None:
    """Refuse too many acks in one request, before they are decoded one by one."""
    count = len(body.acks or ())
    if count > _BATCHES_MAX:
        raise InvalidParameter(f"{count} acks in one request exceed the limit of {_BATCHES_MAX}")


def _bits(encoded: str) -> list[int]:
    """Return the numbers of the bits set in a Java BitSet (little-endian bytes, base64)."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageIllegal(f"bitSet of acked offsets cannot be decoded: {error}") from error
    if len(data) > _BIT_SET_SIZE_MAX:
        raise MessageIllegal(f"bitSet of {len(data)} bytes exceeds the limit of {_BIT_SET_SIZE_MAX}")
    return [8 * index + bit for index, byte in enumerate(data) if byte for bit in range(8) if byte >> bit & 1]
