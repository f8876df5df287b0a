"""Acknowledging popped messages."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kerolox.client import SimpleConsumer
from kerolox.client.consumer.fetch.receipt_handle import ReceiptHandle
from kerolox.client.consumer.handle.acks import ack_batches
from kerolox.client.messages import Received, received
from kerolox.errors import KeroloxError
from kerolox.message.message import Message as Record
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.bodies.pop import BatchAcks
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken, UnregisterClient
from kerolox.wire.headers.pop import AckMessage, BatchAckMessage
from kerolox.wire.reply import Reply
from tests.client.brokers import ScriptedCluster
from tests.remoting.support import serving


def receipt(queue_offset: int, *, start: int = 100, queue_id: int = 2, mark: str = "0") -> ReceiptHandle:
    return ReceiptHandle(start, 1700000000000, 60000, 3, mark, "broker-a", queue_id, queue_offset)


def popped(queue_offset: int, *, start: int = 100) -> Received:
    record = Record(topic="orders", body=b"body", queue_offset=queue_offset)
    message = received(record, MessageQueue("broker-a", 2, "orders"))
    message.receipt = str(receipt(queue_offset, start=start))
    return message


def test_messages_of_one_pop_form_one_bit_set() -> None:
    (batch,) = ack_batches("group", [("orders", receipt(offset)) for offset in (100, 103, 110)])

    assert base64.b64decode(batch.bit_set) == bytes([0b0000_1001, 0b0000_0100])
    assert (batch.topic, batch.queue_id, batch.start_offset, batch.retry) == ("orders", 2, 100, "0")
    assert (batch.pop_time, batch.invisible_time, batch.revive_queue_id) == (1700000000000, 60000, 3)


def test_queues_topics_and_pops_have_separate_batches() -> None:
    batches = ack_batches(
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


class SingleAckBroker:
    """A broker that records single acknowledgements and does not support batches."""

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


class BatchAckBroker(SingleAckBroker):
    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []

    @handles(BatchAckMessage)
    def batch_ack(self, request: Incoming[BatchAckMessage]) -> Reply[Empty]:
        self.together += [batch.start_offset for batch in BatchAcks.decode(request.body).batches]
        return Reply()


@asynccontextmanager
async def consuming(scripted: ScriptedCluster, broker: SingleAckBroker) -> AsyncIterator[SimpleConsumer]:
    async with serving(broker) as server:
        await scripted.list_broker("broker-a", server.address)
        async with SimpleConsumer("group", topics="orders", namesrv_addr=scripted.namesrv_addr) as simple:
            yield simple


async def test_several_messages_are_acknowledged_in_one_batch(scripted: ScriptedCluster) -> None:
    broker = BatchAckBroker()
    async with consuming(scripted, broker) as simple:
        await simple.ack(*(popped(offset) for offset in range(100, 104)))
        await simple.ack(popped(104))

    assert (broker.together, broker.alone) == ([100], [104])


async def test_a_broker_without_batch_ack_gets_single_acks(scripted: ScriptedCluster) -> None:
    """The first 5.x releases do not support batches."""
    broker = SingleAckBroker()
    async with consuming(scripted, broker) as simple:
        await simple.ack(*(popped(offset) for offset in range(100, 104)))

    assert sorted(broker.alone) == [100, 101, 102, 103]


async def test_a_distant_offset_is_acknowledged_alone(scripted: ScriptedCluster) -> None:
    broker = BatchAckBroker()
    async with consuming(scripted, broker) as simple:
        await simple.ack(popped(100), popped(101), popped(1_000_000), popped(99))

    assert (broker.together, sorted(broker.alone)) == ([100], [99, 1_000_000])


async def test_acknowledging_to_an_unknown_broker_fails(scripted: ScriptedCluster) -> None:
    message = popped(100)
    message.receipt = str(receipt(100)).replace("broker-a", "broker-z")
    async with consuming(scripted, SingleAckBroker()) as simple:
        with pytest.raises(KeroloxError, match="the address of broker broker-z is unknown"):
            await simple.ack(message)
