"""Saying of popped messages that they are done."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kerolox.client import SimpleConsumer
from kerolox.client.consumer.acknowledging import batches_of
from kerolox.client.consumer.receipts import Receipt
from kerolox.client.messages import Received, received
from kerolox.errors import KeroloxError
from kerolox.message.message import Message as Record
from kerolox.remoting.routes import Incoming, handles
from kerolox.wire.bodies.pop import BatchAcks
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken, UnregisterClient
from kerolox.wire.headers.pop import AckMessage, BatchAckMessage
from kerolox.wire.reply import Reply
from tests.client.brokers import Stage
from tests.remoting.support import serving


def receipt(queue_offset: int, *, start: int = 100, queue_id: int = 2, mark: str = "0") -> Receipt:
    return Receipt(start, 1700000000000, 60000, 3, mark, "broker-a", queue_id, queue_offset)


def popped(queue_offset: int, *, start: int = 100) -> Received:
    record = Record(topic="orders", body=b"body", queue_offset=queue_offset)
    message = received(record, MessageQueue("broker-a", 2, "orders"))
    message.receipt = str(receipt(queue_offset, start=start))
    return message


def test_what_was_popped_together_is_one_set_of_bits() -> None:
    (batch,) = batches_of("group", [("orders", receipt(offset)) for offset in (100, 103, 110)])

    assert base64.b64decode(batch.bit_set) == bytes([0b0000_1001, 0b0000_0100])
    assert (batch.topic, batch.queue_id, batch.start_offset, batch.retry) == ("orders", 2, 100, "0")
    assert (batch.pop_time, batch.invisible_time, batch.revive_queue_id) == (1700000000000, 60000, 3)


def test_queues_topics_and_pops_are_kept_apart() -> None:
    batches = batches_of(
        "group",
        [
            ("orders", receipt(100)),
            ("returns", receipt(100)),
            ("orders", receipt(100, queue_id=1)),
            ("orders", receipt(101, start=101)),
            ("orders", receipt(100, mark="2")),
        ],
    )

    assert len(batches) == 5


class Acked:
    """A broker that notes how it is told."""

    def __init__(self) -> None:
        self.alone: list[int] = []

    @handles(AckMessage)
    def ack(self, request: Incoming[AckMessage]) -> Reply[Empty]:
        self.alone.append(request.header.offset)
        return Reply()

    @handles(HeartBeat)
    def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        return Reply()


class AckedTogether(Acked):
    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []

    @handles(BatchAckMessage)
    def batch_ack(self, request: Incoming[BatchAckMessage]) -> Reply[Empty]:
        self.together += [batch.start_offset for batch in BatchAcks.decode(request.body).batches]
        return Reply()


@asynccontextmanager
async def consuming(stage: Stage, broker: Acked) -> AsyncIterator[SimpleConsumer]:
    async with serving(broker) as server:
        await stage.list_broker("broker-a", server.address)
        async with SimpleConsumer("group", topics="orders", namesrv_addr=stage.namesrv_addr) as simple:
            yield simple


async def test_several_are_said_at_once(stage: Stage) -> None:
    broker = AckedTogether()
    async with consuming(stage, broker) as simple:
        await simple.ack(*(popped(offset) for offset in range(100, 104)))
        await simple.ack(popped(104))

    assert (broker.together, broker.alone) == ([100], [104])


async def test_a_broker_that_takes_one_at_a_time_gets_them_so(stage: Stage) -> None:
    """The first ones of 5.x know no other way."""
    broker = Acked()
    async with consuming(stage, broker) as simple:
        await simple.ack(*(popped(offset) for offset in range(100, 104)))

    assert sorted(broker.alone) == [100, 101, 102, 103]


async def test_one_that_lies_far_from_the_others_goes_alone(stage: Stage) -> None:
    broker = AckedTogether()
    async with consuming(stage, broker) as simple:
        await simple.ack(popped(100), popped(101), popped(1_000_000), popped(99))

    assert (broker.together, sorted(broker.alone)) == ([100], [99, 1_000_000])


async def test_a_broker_that_is_not_known_cannot_be_told(stage: Stage) -> None:
    message = popped(100)
    message.receipt = str(receipt(100)).replace("broker-a", "broker-z")
    async with consuming(stage, Acked()) as simple:
        with pytest.raises(KeroloxError, match="no address of broker broker-z"):
            await simple.ack(message)
