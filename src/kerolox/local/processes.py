"""Broker child processes, which are restarted when they die."""

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

# Long, because a broker recovers a store that was not closed properly before it is ready.
_READY_SECONDS_MAX = 120.0
_END_SECONDS_MAX = 30.0
_BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
# A broker that dies more often than this within the window is not restarted.
_RESTARTS_MAX = 5
_WINDOW_SECONDS = 60.0
_LINES_KEPT = 20
# The exit code of `kerolox broker` for invalid settings.
_BAD_SETTINGS = 255
# The prefix of the line in which a server prints its metrics URL.
METRICS_AT = "Metrics are at "


def our_command(*arguments: str) -> list[str]:
    """Return the command line that runs `kerolox` with this Python, installed or not."""
    # -P: do not import modules from the current directory.
    return [sys.executable, "-P", "-m", "kerolox", *arguments]


class BrokerProcesses(Service):
    """Starts and stops several brokers concurrently. One that is not restarted does not affect the others."""

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
    """One broker process; `on_change` is called after each change of `state`.

    The child's standard input is a pipe that closes when this process ends, even by a kill, and then the child exits.
    """

    def __init__(self, name: str, command: Sequence[str], *, clock: Clock, on_change: Callable[[], None]) -> None:
        self.state = BrokerState(name=name, address="", pid=0)
        self._command = command
        self._clock = clock
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._error_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._output_readers: set[asyncio.Task[None]] = set()
        self._deaths: deque[float] = deque(maxlen=_RESTARTS_MAX)

    async def open(self) -> None:
        await self._start()

    async def run(self) -> None:
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if not await self._restart(code):
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
                log.warning("%s did not stop within %g s and was killed", self.state.name, _END_SECONDS_MAX)
                process.kill()
                await process.wait()
        await self._wait_for_output()

    async def _start(self) -> None:
        """Return when the broker is ready; raise ConfigurationError with its last output if it exits before."""
        self._error_lines.clear()
        self._process = process = await self._spawn()
        assert process.stdout is not None
        assert process.stderr is not None
        self._read_output(process.stderr, self._error_lines)
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
            await self._wait_for_output()
            # Without a cause if the settings are invalid; otherwise the environment is to blame.
            cause = None if process.returncode == _BAD_SETTINGS else ChildProcessError(process.returncode)
            raise ConfigurationError(f"{self.state.name} did not start: {self._reason()}") from cause
        self._read_output(process.stdout, deque(maxlen=1))
        # "The broker[NAME, ADDRESS] boot success."
        self.state.address = line.partition(", ")[2].partition("]")[0]
        self.state.pid, self.state.state = process.pid, "running"
        self._on_change()

    async def _spawn(self) -> asyncio.subprocess.Process:
        """Start the process; raise ConfigurationError if the system cannot fork now, which may be temporary."""
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            self._error_lines.append(f"the process cannot be started: {reason(error)}")
            raise ConfigurationError(f"{self.state.name} did not start: {self._reason()}") from error

    async def _until_booted(self, stdout: asyncio.StreamReader) -> str:
        """Return the line `The broker[...] boot success`; an empty string if the process ends before."""
        while line := (await stdout.readline()).decode(errors="replace"):
            if line.startswith("The broker["):
                break
            if line.startswith(METRICS_AT):
                self.state.metrics = line.removeprefix(METRICS_AT).strip()
        return line

    async def _restart(self, code: int) -> bool:
        """Restart the broker after a pause; return False if it has died too often."""
        name = self.state.name
        while True:
            now = self._clock.monotonic()
            if len(self._deaths) == _RESTARTS_MAX and now - self._deaths[0] < _WINDOW_SECONDS:
                log.error(
                    "%s died %d times within a minute and is not restarted: %s", name, _RESTARTS_MAX + 1, self._reason()
                )
                self.state.state = "failed"
                self._on_change()
                return False
            self._deaths.append(now)
            recent = sum(now - death < _WINDOW_SECONDS for death in self._deaths)
            pause_seconds = _BACK_OFF_SECONDS[min(recent, len(_BACK_OFF_SECONDS)) - 1]
            log.warning("%s exited with code %d and is restarted in %g s", name, code, pause_seconds)
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
            log.info("%s was restarted as process %d", name, self.state.pid)
            return True

    def _reason(self) -> str:
        """Return the last line that the process wrote to stderr."""
        exited = f"it exited with code {self._returncode()} and without output"
        return (self._error_lines[-1] if self._error_lines else exited).removeprefix("Error: ")

    def _returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def _read_output(self, stream: asyncio.StreamReader, kept: deque[str]) -> None:
        """Read the output in the background: the child would block if the pipe were full."""
        task = asyncio.create_task(_read_all(stream, kept))
        self._output_readers.add(task)
        task.add_done_callback(self._output_readers.discard)

    async def _wait_for_output(self) -> None:
        if self._output_readers:
            await asyncio.wait(self._output_readers)


async def _read_all(stream: asyncio.StreamReader, kept: deque[str]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # The line exceeds the limit of the stream; the rest follows.
            continue
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            kept.append(text)
