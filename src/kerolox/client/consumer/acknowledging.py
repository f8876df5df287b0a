"""Saying of popped messages that they were consumed, or when they shall come again."""

import asyncio
import base64
import logging
from collections import defaultdict
from collections.abc import Sequence

from kerolox.client.consumer.receipts import Receipt
from kerolox.client.messages import Received
from kerolox.client.routes import MASTER_ID
from kerolox.client.session import Session
from kerolox.errors import ConnectFailed, RequestCodeNotSupported
from kerolox.wire.bodies.pop import BatchAck, BatchAcks
from kerolox.wire.headers.pop import AckMessage, BatchAckMessage, ChangeMessageInvisibleTime

log = logging.getLogger(__name__)

# What a broker of ours takes in one request, and more than a few pops bring.
_BATCHES_MAX = 64
# How far a message may lie behind the first that was popped with it; a filter may leave out many.
_BITS_MAX = 4096


class Acknowledging:
    """Speaks to the brokers that receipts name, on behalf of a group."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def ack(self, messages: Sequence[Received]) -> None:
        """One by one if there is one of a broker, else in one request to each; AnswerError if a single one is late."""
        by_broker: dict[str, list[tuple[Received, Receipt]]] = defaultdict(list)
        for message in messages:
            receipt = Receipt.parse(message.receipt)
            by_broker[receipt.broker_name].append((message, receipt))
        await asyncio.gather(*(self._ack(name, popped) for name, popped in by_broker.items()))

    async def _ack(self, broker_name: str, popped: list[tuple[Received, Receipt]]) -> None:
        together = [(message, receipt) for message, receipt in popped if 0 <= _bit(receipt) < _BITS_MAX]
        alone = [(message, receipt) for message, receipt in popped if not 0 <= _bit(receipt) < _BITS_MAX]
        if len(together) > 1:
            try:
                await self._ack_together(broker_name, together)
                together = []
            except RequestCodeNotSupported:
                log.debug("broker %s takes acks one by one only", broker_name)
        await asyncio.gather(*(self._ack_one(message, receipt) for message, receipt in together + alone))

    async def _ack_one(self, message: Received, receipt: Receipt) -> None:
        request = AckMessage(
            consumer_group=self._group,
            topic=self._place(message, receipt),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
        )
        await self._session.call(self.address(receipt.broker_name), request)

    async def _ack_together(self, broker_name: str, popped: list[tuple[Received, Receipt]]) -> None:
        batches = batches_of(
            self._group, [(self._session.options.wrap(message.topic), receipt) for message, receipt in popped]
        )
        for start in range(0, len(batches), _BATCHES_MAX):
            body = BatchAcks.of(broker_name, batches[start : start + _BATCHES_MAX]).encode()
            await self._session.call(self.address(broker_name), BatchAckMessage(), body)

    async def change_invisible(self, message: Received, invisible_seconds: float) -> None:
        """The message has another receipt afterwards."""
        receipt = Receipt.parse(message.receipt)
        request = ChangeMessageInvisibleTime(
            consumer_group=self._group,
            topic=self._place(message, receipt),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
            invisible_time=int(invisible_seconds * 1000),
        )
        reply = await self._session.call(self.address(receipt.broker_name), request)
        message.receipt = str(receipt.renewed(reply.fields))

    def _place(self, message: Received, receipt: Receipt) -> str:
        return receipt.topic(self._session.options.wrap(message.topic), self._group)

    def address(self, broker_name: str) -> str:
        address = self._session.routes.address(broker_name, MASTER_ID)
        if address is None:
            raise ConnectFailed(f"no address of broker {broker_name} is known")
        return address


def batches_of(group: str, popped: Sequence[tuple[str, Receipt]]) -> list[BatchAck]:
    """Returns one for all messages of a topic that were popped together from one queue."""
    offsets: dict[tuple[str, str, int, int, int, int, int], list[int]] = defaultdict(list)
    for topic, receipt in popped:
        key = (
            *(topic, receipt.mark, receipt.queue_id, receipt.start_offset),
            *(receipt.pop_millis, receipt.invisible_millis, receipt.revive_queue_id),
        )
        offsets[key].append(_bit(receipt))
    return [
        BatchAck(
            bit_set=_bit_set(bits),
            consumer_group=group,
            invisible_time=invisible,
            pop_time=popped_at,
            queue_id=queue_id,
            retry=mark,
            revive_queue_id=revive,
            start_offset=start,
            topic=topic,
        )
        for (topic, mark, queue_id, start, popped_at, invisible, revive), bits in offsets.items()
    ]


def _bit(receipt: Receipt) -> int:
    return receipt.queue_offset - receipt.start_offset


def _bit_set(bits: list[int]) -> str:
    """Returns bits as Java writes a BitSet: bytes with the lowest bits first."""
    number = 0
    for bit in bits:
        number |= 1 << bit
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
