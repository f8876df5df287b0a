"""A producer of transactions: sends half messages, ends them, and records the checks it receives."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kerolox.message import properties
from kerolox.message.ids import parse_offset_id
from kerolox.message.records.record import decode
from kerolox.message.sysflag import COMMIT, PREPARED, ROLLBACK
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.wire.bodies.clients import HeartbeatData, ProducerData
from kerolox.wire.header import Empty
from kerolox.wire.headers.clients import HeartBeat
from kerolox.wire.headers.messages import CheckTransactionState, EndTransaction, SendMessageV2, Sent
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, sending

GROUP = "payers"

__all__ = ["COMMIT", "GROUP", "ROLLBACK", "Producer", "ending", "half", "producing", "until"]


def half(topic: str = "orders", key: str = "K1", born: int = 1_700_000_000_000, **names: str) -> SendMessageV2:
    request = sending(topic, 1, PREPARED)
    request.born_timestamp = born
    all_properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, **names}
    request.properties = properties.to_bytes(all_properties).decode()
    return request


def ending(offsets: tuple[int, int], decision: int, *, group: str = GROUP, is_check: bool = False) -> EndTransaction:
    queue_offset, physical_offset = offsets
    return EndTransaction(
        producer_group=group,
        tran_state_table_offset=queue_offset,
        commit_log_offset=physical_offset,
        commit_or_rollback=decision,
        from_transaction_check=is_check,
        msg_id="K1",
    )


class Producer:
    def __init__(self, broker: BrokerFixture) -> None:
        self._broker = broker
        self.client = Client(Router(self))
        self.checks: list[Incoming[CheckTransactionState]] = []

    @handles(CheckTransactionState)
    def check(self, request: Incoming[CheckTransactionState]) -> Reply[Empty]:
        self.checks.append(request)
        return Reply()

    @property
    def address(self) -> str:
        return self._broker.broker.address

    async def heartbeat(self, group: str = GROUP) -> None:
        data = HeartbeatData(client_id=f"p{id(self)}", consumer_data_set=[], producer_data_set=[ProducerData(group)])
        await self.client.call(self.address, HeartBeat(), data.encode())

    async def prepare(self, request: SendMessageV2, body: bytes = b"body") -> tuple[int, int]:
        """Return the queue offset and the physical offset of the half message."""
        sent: Sent = (await self.client.call(self.address, request, body)).fields
        assert sent.msg_id is not None
        assert sent.queue_offset is not None
        return sent.queue_offset, parse_offset_id(sent.msg_id)[1]

    async def end(self, offsets: tuple[int, int], decision: int, *, is_check: bool = False) -> None:
        await self.client.call(self.address, ending(offsets, decision, is_check=is_check))

    async def answer_check(self, decision: int) -> None:
        """Answer the last check."""
        check = self.checks[-1]
        offsets = check.header.tran_state_table_offset, check.header.commit_log_offset
        assert decode(check.body).physical_offset == offsets[1]
        await self.end(offsets, decision, is_check=True)


@asynccontextmanager
async def producing(broker: BrokerFixture) -> AsyncIterator[Producer]:
    producer = Producer(broker)
    async with producer.client:
        await producer.heartbeat()
        yield producer


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
