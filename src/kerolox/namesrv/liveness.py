"""Who has gone silent, and who is told of it."""

import asyncio
import logging

from kerolox.errors import ConfigurationError, RemotingError
from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.route_table import Notice, RouteTable
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

FIRST_SCAN_SECONDS = 5.0
NOTICES_MAX = 1000
TOLD_AT_ONCE_MAX = 64
NOTICE_SECONDS = 3.0


class ExpiryScan(Service):
    """Removes brokers that were silent for longer than their own time-out, and closes their connections."""

    def __init__(self, table: RouteTable, config: NamesrvConfig, clock: Clock) -> None:
        self._table = table
        self._config = config
        self._clock = clock

    async def run(self) -> None:
        await self._clock.sleep(FIRST_SCAN_SECONDS)
        while True:
            try:
                self.scan()
            except Exception:
                log.exception("the scan for silent brokers failed")
            # Read anew each time: an operator may change it.
            await self._clock.sleep(max(self._config.scan_not_active_broker_interval, 10) / 1000)

    def scan(self) -> None:
        for where, live in self._table.expired():
            log.warning("broker %s expired: silent for more than %d ms", where.address, live.timeout_millis)
            self._table.unregister(where, live.group)
            if isinstance(live.channel, Connection):
                live.channel.abort()


class Notifier(Service):
    """Tells brokers that the first of their group has changed."""

    def __init__(self) -> None:
        self._notices: asyncio.Queue[Notice] = asyncio.Queue(NOTICES_MAX)
        self._free = asyncio.Semaphore(TOLD_AT_ONCE_MAX)

    def submit(self, notice: Notice) -> None:
        try:
            self._notices.put_nowait(notice)
        except asyncio.QueueFull:
            log.warning("%d notices wait, one more was dropped", NOTICES_MAX)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as telling:
            while True:
                notice = await self._notices.get()
                for address in notice.addresses:
                    await self._free.acquire()
                    telling.create_task(self._tell(address, notice))

    async def _tell(self, address: str, notice: Notice) -> None:
        try:
            # A connection of its own, ended with it: nobody would watch one that is kept.
            async with Client(connect_timeout_seconds=NOTICE_SECONDS) as client:
                await client.call_oneway(address, notice.change)
        except (RemotingError, ConfigurationError) as error:
            log.warning("broker %s could not be told of a new first broker: %s", address, error)
        finally:
            self._free.release()
