"""Background work: services, and the supervisor that owns their tasks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from kerolox.errors import KeroloxError, ServiceFailed
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class Service:
    """Something that is opened, works in the background, and is closed. `str()` names it in logs and errors."""

    async def open(self) -> None:
        """Acquire what the service needs; services that are opened later may rely on it."""

    async def run(self) -> None:
        """Work until cancelled. Returning early is fine; an exception ends all services of the supervisor."""

    async def close(self) -> None:
        """Release resources, however `run` ended; data that must reach the disk is written here."""

    def __str__(self) -> str:
        return type(self).__name__


class Periodic(Service):
    """Calls `job` every `seconds`, the first time after `first_seconds`. A failing job is logged and called again."""

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

    def __str__(self) -> str:
        return f"periodic job {self.name!r}"

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


class Step(Service):
    """A service that only calls functions: `opening` when it is opened, `closing` when it is closed."""

    def __init__(
        self,
        *,
        opening: Callable[[], Awaitable[None] | None] | None = None,
        closing: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        self._opening = opening
        self._closing = closing

    async def open(self) -> None:
        if self._opening is not None and (waiting := self._opening()) is not None:
            await waiting

    async def close(self) -> None:
        if self._closing is not None and (waiting := self._closing()) is not None:
            await waiting


class LazyService(Service):
    """Creates a service only when the services before it are open; `then` is called with it once it is open.

    If it is not needed, a failure of its `run` is logged and the other services go on.
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

    def __str__(self) -> str:
        return str(self._service)

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
            log.exception("%s failed; the other services continue", self._service)

    async def close(self) -> None:
        await self._service.close()


class Supervisor(Service):
    """Opens services in order, runs them in one TaskGroup, and closes them in reverse.

    When a service fails, all of them end and are closed. `async with` then interrupts its body, as TaskGroup does, and
    raises ServiceFailed. A supervisor may itself be a service of another one.

    One task opens, runs and closes the services. It is never cancelled, so that no service is left half open or half
    closed: a caller that is cancelled meanwhile waits for it.
    """

    def __init__(self, *services: Service) -> None:
        self.services = services
        self.failure: ServiceFailed | None = None
        self._opened: list[Service] = []
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # The task in the body of `async with`, and its number of cancellation requests when it entered.
        self._body_task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_interrupted = False

    async def open(self) -> None:
        """Open all services and start running them; if one cannot be opened, close the others and raise its error."""
        self.failure = None
        self._stopping.clear()
        ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._supervise(ready), name=f"supervisor of {self}")
        # Retrieve the exception, or asyncio logs it as never retrieved if the caller of `open` was cancelled.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await asyncio.wait([ready, self._task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop()
            raise
        if not ready.done():
            self._task.result()

    async def wait(self) -> None:
        """Return when the services have been closed; ServiceFailed if that is because one of them failed."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self.failure is not None:
            raise self.failure

    async def run(self) -> None:
        await self.wait()

    async def close(self) -> None:
        """End and close all services; ServiceFailed if one of them has failed."""
        await self.stop()
        if self.failure is not None:
            raise self.failure

    async def stop(self) -> None:
        """End and close all services. It returns when they are closed, even if the caller is cancelled meanwhile."""
        self._stopping.set()
        cancelled: asyncio.CancelledError | None = None
        while self._task is not None and not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def __aenter__(self) -> Self:
        await self.open()
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        error = self.leave(error)
        await self.stop()
        self.settle(error)

    # The body of `async with`, in three steps for owners that do more than open and close their supervisor.

    async def enter(self) -> None:
        """From now on a failure cancels the current task; ServiceFailed if a service has failed already."""
        if self.failure is not None:
            await self.close()
        self._body_task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Return the error of the body; None if it is the cancellation that a failed service caused."""
        task, self._body_task = self._body_task, None
        if task is not None and self._is_interrupted:
            self._is_interrupted = False
            if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
                return None
        return error

    def settle(self, error: BaseException | None) -> None:
        """Raise the failure of a service, if any; a cancellation or Ctrl-C that ended the body takes precedence."""
        if self.failure is None or error is self.failure:
            return
        if error is None or isinstance(error, Exception):
            if error is not None:
                self.failure.add_note(f"The body of `async with` had raised {error!r}")
            raise self.failure

    async def _supervise(self, ready: "asyncio.Future[None]") -> None:
        try:
            for service in self.services:
                if self._stopping.is_set():
                    return
                await service.open()
                self._opened.append(service)
            ready.set_result(None)
            await self._run_all()
        finally:
            await self._close_all()

    async def _run_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(_run(service), name=str(service)) for service in self.services]
                await self._stopping.wait()
                for task in running:
                    task.cancel()
        except ExceptionGroup as failures:
            # Each failure is logged in `_run`. If several services fail together, the first is the likely cause.
            self.failure = next(each for each in failures.exceptions if isinstance(each, ServiceFailed))
        if self.failure is not None and self._body_task is not None:
            self._is_interrupted = self._body_task.cancel()

    async def _close_all(self) -> None:
        while self._opened:
            service = self._opened.pop()
            try:
                await service.close()
            except ServiceFailed as error:
                # A nested supervisor failed after this one had begun to stop, when its `run` was no longer awaited.
                self.failure = self.failure or _nested(service, error)
            except Exception:
                log.exception("%s did not close cleanly", service)


async def _run(service: Service) -> None:
    """Run a service; ServiceFailed, with its error as the cause, if it fails or raises CancelledError unasked."""
    try:
        await service.run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        log.error("%s failed: it was cancelled", service)
        raise ServiceFailed(f"{service} failed: it was cancelled") from error
    except ServiceFailed as error:
        raise _nested(service, error) from error.__cause__
    except Exception as error:
        cause = _first(error)
        log.error("%s failed", service, exc_info=cause)
        raise ServiceFailed(f"{service} failed: {_describe(cause)}") from cause


def _nested(service: Service, error: ServiceFailed) -> ServiceFailed:
    failure = ServiceFailed(f"{service} failed: {error}")
    failure.__cause__ = error.__cause__
    return failure


def _first(error: Exception) -> Exception:
    """Return the first error inside nested exception groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _describe(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    if isinstance(error, KeroloxError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
