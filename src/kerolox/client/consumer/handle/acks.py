"""Acknowledges popped messages, and changes their invisible time."""

import asyncio
import base64
import logging
from collections import defaultdict
from collections.abc import Sequence

from kerolox.client.consumer.fetch.receipt_handle import ReceiptHandle
from kerolox.client.messages import Received
from kerolox.client.session.session import Session
from kerolox.client.session.topic_routes import MASTER_ID
from kerolox.errors import ConnectFailed, RequestCodeNotSupported
from kerolox.wire.bodies.pop import BatchAck, BatchAcks
from kerolox.wire.headers.pop import AckMessage, BatchAckMessage, ChangeMessageInvisibleTime

log = logging.getLogger(__name__)

# Pops per request: the limit of Kerolox brokers.
_BATCHES_MAX = 64
# Maximum distance from the start offset of the pop, which is the size of the bit set in bits. The offsets of one pop
# may be far apart, because filters skip messages.
_BITS_MAX = 4096


class Acks:
    """Sends the acknowledgements of a group to the brokers in the receipt handles."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def ack(self, messages: Sequence[Received]) -> None:
        """Acknowledge in one batch per broker; raise AnswerError if a message alone in its batch is too late."""
        by_broker: dict[str, list[tuple[Received, ReceiptHandle]]] = defaultdict(list)
        for message in messages:
            receipt = ReceiptHandle.parse(message.receipt)
            by_broker[receipt.broker_name].append((message, receipt))
        await asyncio.gather(*(self._ack(name, popped) for name, popped in by_broker.items()))

    async def _ack(self, broker_name: str, popped: list[tuple[Received, ReceiptHandle]]) -> None:
        batched = [(message, receipt) for message, receipt in popped if 0 <= _bit(receipt) < _BITS_MAX]
        single = [(message, receipt) for message, receipt in popped if not 0 <= _bit(receipt) < _BITS_MAX]
        if len(batched) > 1:
            try:
                await self._ack_batch(broker_name, batched)
                batched = []
            except RequestCodeNotSupported:
                log.debug("broker %s does not support batch acknowledgements", broker_name)
        await asyncio.gather(*(self._ack_one(message, receipt) for message, receipt in batched + single))

    async def _ack_one(self, message: Received, receipt: ReceiptHandle) -> None:
        request = AckMessage(
            consumer_group=self._group,
            topic=self._stored_topic(message, receipt),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
        )
        await self._session.call(self.address(receipt.broker_name), request)

    async def _ack_batch(self, broker_name: str, popped: list[tuple[Received, ReceiptHandle]]) -> None:
        batches = ack_batches(
            self._group, [(self._session.options.wrap(message.topic), receipt) for message, receipt in popped]
        )
        for start in range(0, len(batches), _BATCHES_MAX):
            body = BatchAcks.of(broker_name, batches[start : start + _BATCHES_MAX]).encode()
            await self._session.call(self.address(broker_name), BatchAckMessage(), body)

    async def change_invisible(self, message: Received, invisible_seconds: float) -> None:
        """Change the invisible time, and replace the receipt handle of the message."""
        receipt = ReceiptHandle.parse(message.receipt)
        request = ChangeMessageInvisibleTime(
            consumer_group=self._group,
            topic=self._stored_topic(message, receipt),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
            invisible_time=int(invisible_seconds * 1000),
        )
        reply = await self._session.call(self.address(receipt.broker_name), request)
        message.receipt = str(receipt.renewed(reply.fields))

    def _stored_topic(self, message: Received, receipt: ReceiptHandle) -> str:
        return receipt.topic(self._session.options.wrap(message.topic), self._group)

    def address(self, broker_name: str) -> str:
        address = self._session.routes.address(broker_name, MASTER_ID)
        if address is None:
            raise ConnectFailed(f"the address of broker {broker_name} is unknown")
        return address


def ack_batches(group: str, popped: Sequence[tuple[str, ReceiptHandle]]) -> list[BatchAck]:
    """Return one BatchAck for all messages that were popped together from one queue."""
    bits_of: dict[tuple[str, str, int, int, int, int, int], list[int]] = defaultdict(list)
    for topic, receipt in popped:
        key = (
            topic,
            receipt.mark,
            receipt.queue_id,
            receipt.start_offset,
            receipt.pop_millis,
            receipt.invisible_millis,
            receipt.revive_queue_id,
        )
        bits_of[key].append(_bit(receipt))
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
        for (topic, mark, queue_id, start, popped_at, invisible, revive), bits in bits_of.items()
    ]


def _bit(receipt: ReceiptHandle) -> int:
    return receipt.queue_offset - receipt.start_offset


def _bit_set(bits: list[int]) -> str:
    """Encode bits like Java's BitSet.toByteArray: little-endian, in Base64."""
    number = 0
    for bit in bits:
        number |= 1 << bit
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
