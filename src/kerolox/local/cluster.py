"""A NameServer and brokers in this process."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from kerolox.broker import Broker, Settings
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.address import format_address, parse_address

# Where who listens everywhere is reached from the same machine.
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class Cluster:
    """`async with Cluster(config, settings) as cluster: ... cluster.namesrv_addr`, all on one event loop."""

    def __init__(self, name_server: NamesrvConfig, brokers: Sequence[Settings]) -> None:
        self._settings = brokers
        self._running = AsyncExitStack()
        self.name_server = NameServer(name_server)
        self.brokers: list[Broker] = []

    @property
    def namesrv_addr(self) -> str:
        """What clients on this machine are configured with."""
        host, port = parse_address(self.name_server.address)
        return format_address((_LOOPBACKS.get(host, host), port))

    async def __aenter__(self) -> "Cluster":
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(self.name_server)
            for settings in self._settings:
                settings.update({"namesrvAddr": self.namesrv_addr})
                self.brokers.append(await starting.enter_async_context(Broker(settings)))
            self._running = starting.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._running.aclose()

    async def wait(self) -> None:
        """Waits for ever, or until a part of it fails."""
        waits = [self.name_server.wait(), *(broker.wait() for broker in self.brokers)]
        waiting = [asyncio.create_task(wait) for wait in waits]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)


def broker_name(number: int) -> str:
    """Returns what the broker with that number, from 0 on, is called where nobody gave it a name."""
    return f"broker-{chr(ord('a') + number)}" if number < 26 else f"broker-{number}"
