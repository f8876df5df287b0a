"""A fake consumer that answers the requests of a broker and records them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kerolox.broker import Broker
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.wire.bodies.offsets import ResetOffsetBody
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import clients as h
from kerolox.wire.headers import offsets as o
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture

Q = TypeVar("Q", bound=Request[Any])


class Consumer:
    """`requests` has the received requests and bodies; `answer` is its response, or None if it never responds."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[object, bytes]] = asyncio.Queue()
        self.answer: Reply[Empty] | None = Reply()

    async def _answer(self, request: Incoming[Q]) -> Reply[Empty]:
        self.requests.put_nowait((request.header, request.body))
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

    async def next_request(self) -> tuple[object, bytes]:
        async with asyncio.timeout(10):
            return await self.requests.get()


@asynccontextmanager
async def consuming(
    broker: Broker, client_id: str = "c", group: str = "group", topic: str = "orders"
) -> AsyncIterator[tuple[Consumer, BrokerFixture]]:
    """Yield a connected consumer, and its connection."""
    consumer = Consumer()
    async with Client(Router(consumer)) as client:
        connected = BrokerFixture(broker, client)
        await connected.heartbeat(client_id, consumes={group: [topic]})
        yield consumer, connected


def offsets_in(body: bytes) -> dict[int, int]:
    return {queue.queue_id: offset for queue, offset in ResetOffsetBody.decode(body).offset_table.items()}
