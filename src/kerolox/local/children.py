"""A broker in a process of its own: started, watched, and started again when it dies."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from kerolox.errors import ConfigurationError, reason
from kerolox.local.folder import BrokerState
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

# A store that was not closed is looked through first, which may take its time.
_READY_SECONDS_MAX = 120.0
_END_SECONDS_MAX = 30.0
_BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
# It is started again so often within the window; dying once more, it is left dead.
_RESTARTS_MAX = 5
_WINDOW_SECONDS = 60.0
_LINES_KEPT = 20
# What `kerolox broker` ends with over settings that cannot be used.
_BAD_SETTINGS = 255
# How a server says where Prometheus is told of it.
METRICS_AT = "Metrics are at "


def our_command(*arguments: str) -> list[str]:
    """Returns how this Python runs `kerolox`, installed or not."""
    # What lies in the current directory is not ours to import.
    return [sys.executable, "-P", "-m", "kerolox", *arguments]


class BrokerProcesses(Service):
    """Several of them, started and stopped at the same time. One that stays away leaves the others alone."""

    def __init__(self, brokers: Sequence["BrokerProcess"]) -> None:
        self._brokers = brokers

    async def open(self) -> None:
        opened = await asyncio.gather(*(broker.open() for broker in self._brokers), return_exceptions=True)
        failures = [result for result in opened if result is not None]
        if failures:
            await self.close()
            raise failures[0]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as running:
            for broker in self._brokers:
                running.create_task(broker.run())

    async def close(self) -> None:
        await asyncio.gather(*(broker.close() for broker in self._brokers))


class BrokerProcess(Service):
    """Tells of each change by `on_change`. Standard input of the child ends with this process, however that ends."""

    def __init__(self, name: str, command: Sequence[str], *, clock: Clock, on_change: Callable[[], None]) -> None:
        self.state = BrokerState(name=name, address="", pid=0)
        self._command = command
        self._clock = clock
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._complaints: deque[str] = deque(maxlen=_LINES_KEPT)
        self._listening: set[asyncio.Task[None]] = set()
        self._deaths: deque[float] = deque(maxlen=_RESTARTS_MAX)

    async def open(self) -> None:
        await self._start()

    async def run(self) -> None:
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if not await self._revive(code):
                return

    async def close(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(_END_SECONDS_MAX):
                    await process.wait()
            except TimeoutError:
                log.warning("%s did not end within %g s and was killed", self.state.name, _END_SECONDS_MAX)
                process.kill()
                await process.wait()
        await self._listened()

    async def _start(self) -> None:
        """Returns when the broker is ready; ConfigurationError with its own words if it ended before."""
        self._complaints.clear()
        self._process = process = await self._spawned()
        assert process.stdout is not None
        assert process.stderr is not None
        self._listen(process.stderr, self._complaints)
        try:
            async with asyncio.timeout(_READY_SECONDS_MAX):
                line = await self._until_booted(process.stdout)
                if not line:
                    await process.wait()
        except (TimeoutError, asyncio.CancelledError) as error:
            process.kill()
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise ConfigurationError(f"{self.state.name} was not ready within {_READY_SECONDS_MAX:g} s") from error
        if not line:
            await self._listened()
            # Over its settings, or over what it found here.
            cause = None if process.returncode == _BAD_SETTINGS else ChildProcessError(process.returncode)
            raise ConfigurationError(f"{self.state.name} did not start: {self._reason()}") from cause
        self._listen(process.stdout, deque(maxlen=1))
        # "The broker[NAME, ADDRESS] boot success."
        self.state.address = line.partition(", ")[2].partition("]")[0]
        self.state.pid, self.state.state = process.pid, "running"
        self._on_change()

    async def _spawned(self) -> asyncio.subprocess.Process:
        """Returns a new process; a system that has none to give now may have one later."""
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            self._complaints.append(f"the system has no process for it: {reason(error)}")
            raise ConfigurationError(f"{self.state.name} did not start: {self._reason()}") from error

    async def _until_booted(self, said: asyncio.StreamReader) -> str:
        """Returns the line that says so, noting what was said before; an empty one if it ended."""
        while line := (await said.readline()).decode(errors="replace"):
            if line.startswith("The broker["):
                break
            if line.startswith(METRICS_AT):
                self.state.metrics = line.removeprefix(METRICS_AT).strip()
        return line

    async def _revive(self, code: int) -> bool:
        """Starts it again, after a while; False if it has died too often for that."""
        name = self.state.name
        while True:
            now = self._clock.monotonic()
            if len(self._deaths) == _RESTARTS_MAX and now - self._deaths[0] < _WINDOW_SECONDS:
                log.error(
                    "%s died %d times within a minute and stays away: %s", name, _RESTARTS_MAX + 1, self._reason()
                )
                self.state.state = "failed"
                self._on_change()
                return False
            self._deaths.append(now)
            recent = sum(now - death < _WINDOW_SECONDS for death in self._deaths)
            pause_seconds = _BACK_OFF_SECONDS[min(recent, len(_BACK_OFF_SECONDS)) - 1]
            log.warning("%s ended with %d and is started again in %g s", name, code, pause_seconds)
            self.state.state = "restarting"
            self.state.restarts += 1
            self._on_change()
            await self._clock.sleep(pause_seconds)
            try:
                await self._start()
            except ConfigurationError as error:
                log.warning("%s", error)
                assert self._process is not None
                code = self._process.returncode or 0
                continue
            log.info("%s is back as process %d", name, self.state.pid)
            return True

    def _reason(self) -> str:
        """Returns the last thing that it said."""
        said = self._complaints[-1] if self._complaints else f"it ended with {self._returncode()} and said nothing"
        return said.removeprefix("Error: ")

    def _returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def _listen(self, stream: asyncio.StreamReader, kept: deque[str]) -> None:
        """Reads what it says, for it would wait if nobody did."""
        task = asyncio.create_task(_read_all(stream, kept))
        self._listening.add(task)
        task.add_done_callback(self._listening.discard)

    async def _listened(self) -> None:
        if self._listening:
            await asyncio.wait(self._listening)


async def _read_all(stream: asyncio.StreamReader, kept: deque[str]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # Longer than a line may be; its rest comes next.
            continue
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            kept.append(text)
