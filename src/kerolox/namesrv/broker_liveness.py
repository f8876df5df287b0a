"""Expires brokers without heartbeats, and notifies brokers of a changed minimum broker id in their group."""

import asyncio
import logging

from kerolox.errors import ConfigurationError, RemotingError
from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.route_table import Notice, RouteTable
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

FIRST_SCAN_SECONDS = 5.0
NOTICES_MAX = 1000
CONCURRENT_CALLS_MAX = 64
CONNECT_TIMEOUT_SECONDS = 3.0


class ExpiryScan(Service):
    """Removes brokers without a heartbeat within their timeout, and closes their connections."""

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
                log.exception("the scan for expired brokers failed")
            # Not cached: an operator may change the interval at runtime.
            await self._clock.sleep(max(self._config.scan_not_active_broker_interval, 10) / 1000)

    def scan(self) -> None:
        for broker, live in self._table.expired():
            log.warning("broker %s expired: no heartbeat for more than %d ms", broker.address, live.timeout_millis)
            self._table.unregister(broker, live.group)
            if isinstance(live.channel, Connection):
                live.channel.abort()


class Notifier(Service):
    """Sends NOTIFY_MIN_BROKER_ID_CHANGE to the members of a group."""

    def __init__(self) -> None:
        self._notices: asyncio.Queue[Notice] = asyncio.Queue(NOTICES_MAX)
        self._free = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    def submit(self, notice: Notice) -> None:
        try:
            self._notices.put_nowait(notice)
        except asyncio.QueueFull:
            log.warning("notice dropped: %d notices are waiting already", NOTICES_MAX)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                notice = await self._notices.get()
                for address in notice.addresses:
                    await self._free.acquire()
                    tasks.create_task(self._send(address, notice))

    async def _send(self, address: str, notice: Notice) -> None:
        try:
            # A connection per notice: notices are rare, and a kept connection would not be monitored.
            async with Client(connect_timeout_seconds=CONNECT_TIMEOUT_SECONDS) as client:
                await client.call_oneway(address, notice.change)
        except (RemotingError, ConfigurationError) as error:
            log.warning("broker %s could not be notified of a new minimum broker id: %s", address, error)
        finally:
            self._free.release()
