"""A broker whose messages are not in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kerolox.broker import Broker
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from tests.broker.brokers import BrokerFixture, settings
from tests.store.log.test_cold_reads import ColdDisk


@asynccontextmanager
async def cold_broker(
    disk: ColdDisk, fill: Callable[[BrokerFixture], Awaitable[None]], *, is_hanging: bool = False, **changes: str
) -> AsyncIterator[BrokerFixture]:
    """Yield a restarted broker with the messages of `fill`; from now on the disk counts reads on the event loop.

    If it `is_hanging`, reads of the log wait for the permits of the test. The clock stands still, so that no background
    service reads.
    """
    clock = ManualClock()
    async with Broker(settings(Path("/store"), **changes), clock=clock, disk=disk) as started, Client() as client:
        await fill(BrokerFixture(started, client))
    async with Broker(settings(Path("/store"), **changes), clock=clock, disk=disk) as started, Client() as client:
        disk.is_slow = True
        if not is_hanging:
            disk.permits.release(1000)
        try:
            yield BrokerFixture(started, client)
        finally:
            disk.permits.release(1000)
            disk.is_slow = False
