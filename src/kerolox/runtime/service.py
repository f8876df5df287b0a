"""What runs in the background: services, and the supervisor that owns their tasks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType

from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class Service:
    """Something with a beginning, work of its own, and an end."""

    async def open(self) -> None:
        """Acquires what the service needs; who starts later may rely on it."""

    async def run(self) -> None:
        """Works until cancelled. Returning early is fine; raising ends every service beside this one."""

    async def close(self) -> None:
        """Releases, however `run` ended; what must reach the disk is written here."""


class Periodic(Service):
    """Calls `job` every `seconds`, the first time after `first_seconds`. A failing job is logged and goes on."""

    def __init__(
        self,
        name: str,
        *,
        seconds: float,
        job: Callable[[], Awaitable[None] | None],
        clock: Clock,
        first_seconds: float | None = None,
    ) -> None:
        self.name = name
        self.seconds = seconds
        self._first_seconds = seconds if first_seconds is None else first_seconds
        self._job = job
        self._clock = clock

    async def run(self) -> None:
        await self._clock.sleep(self._first_seconds)
        while True:
            try:
                waiting = self._job()
                if waiting is not None:
                    await waiting
            except Exception:
                log.exception("periodic job %r failed", self.name)
            await self._clock.sleep(self.seconds)


class Late(Service):
    """A service that is made when those before it are open; `then` is called with it once it is open, too.

    If it is not needed, those beside it go on when it fails.
    """

    def __init__(
        self,
        make: Callable[[], Service],
        *,
        then: Callable[[Service], None] | None = None,
        is_needed: bool = True,
    ) -> None:
        self._make = make
        self._then = then
        self._is_needed = is_needed
        self._service = Service()

    async def open(self) -> None:
        service = self._make()
        await service.open()
        self._service = service
        if self._then is not None:
            self._then(service)

    async def run(self) -> None:
        try:
            await self._service.run()
        except Exception:
            if self._is_needed:
                raise
            log.exception("%s failed; the rest goes on", type(self._service).__name__)

    async def close(self) -> None:
        await self._service.close()


class Supervisor:
    """Opens services in order, closes them in reverse, and ends them all when one fails."""

    def __init__(self, *services: Service) -> None:
        self._services = services
        self._opened: list[Service] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        try:
            for service in self._services:
                await self._open(service)
        except BaseException:
            await self._close()
            raise
        self._tasks = [asyncio.create_task(service.run(), name=type(service).__name__) for service in self._services]
        return self

    async def _open(self, service: Service) -> None:
        """Opens it whole or not at all: whoever is cancelled meanwhile waits for it, so that it can be closed."""
        opening = asyncio.ensure_future(service.open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                self._opened.append(service)
            raise
        self._opened.append(service)

    async def wait(self) -> None:
        """Returns when a service has failed, raising what it raised; otherwise waits for ever."""
        running = set(self._tasks)
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        await asyncio.Event().wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()

    async def _close(self) -> None:
        while self._opened:
            service = self._opened.pop()
            try:
                await service.close()
            except Exception:
                log.exception("%s did not close cleanly", type(service).__name__)
