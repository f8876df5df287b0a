"""A consumer as a broker sees it: it answers what it is asked, and notes what it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kerolox.broker import Broker
from kerolox.remoting.client import Client
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.wire.bodies.offsets import ResetOffsetBody
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as h
from kerolox.wire.headers import offsets as o
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture


class Consumer:
    """`asked` has what came, with its body; `answer` is what it says, and None that it never does."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[object, bytes]] = asyncio.Queue()
        self.answer: Reply[Empty] | None = Reply()

    async def _answer(self, request: Incoming[object]) -> Reply[Empty]:  # type: ignore[type-var]
        self.asked.put_nowait((request.header, request.body))
        if self.answer is None:
            await asyncio.Event().wait()
        assert self.answer is not None
        return self.answer

    @handles(h.GetConsumerRunningInfo)
    async def running_info(self, request: Incoming[h.GetConsumerRunningInfo]) -> Reply[Empty]:
        return await self._answer(request)

    @handles(h.ConsumeMessageDirectly)
    async def consume(self, request: Incoming[h.ConsumeMessageDirectly]) -> Reply[Empty]:
        return await self._answer(request)

    @handles(o.GetConsumerStatusFromClient)
    async def status(self, request: Incoming[o.GetConsumerStatusFromClient]) -> Reply[Empty]:
        return await self._answer(request)

    @handles(o.ResetConsumerClientOffset)
    async def reset(self, request: Incoming[o.ResetConsumerClientOffset]) -> Reply[Empty]:
        return await self._answer(request)

    async def told(self) -> tuple[object, bytes]:
        async with asyncio.timeout(10):
            return await self.asked.get()


@asynccontextmanager
async def consuming(
    broker: Broker, client_id: str = "c", group: str = "group", topic: str = "orders"
) -> AsyncIterator[tuple[Consumer, BrokerFixture]]:
    """Gives a consumer that is online, and the connection it has."""
    consumer = Consumer()
    async with Client(Routes(consumer)) as client:
        connected = BrokerFixture(broker, client)
        await connected.heartbeat(client_id, consumes={group: [topic]})
        yield consumer, connected


def offsets_in(body: bytes) -> dict[int, int]:
    return {queue.queue_id: offset for queue, offset in ResetOffsetBody.decode(body).offset_table.items()}
