"""Shared by the commands that run a server: Java's exit codes, logging flags, signals, and start-up errors."""

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kerolox.cli.errors import OneLineErrors
from kerolox.errors import ConfigurationError, ServiceFailed, reason
from kerolox.runtime.logs import LogFormat, TextFormatter
from kerolox.runtime.service import Supervisor
from kerolox.runtime.text import properties

F = TypeVar("F", bound=Callable[..., Any])


class BadConfiguration(click.ClickException):
    """Java exits with -1, which a shell shows as 255."""

    exit_code = 255


class NotStarted(click.ClickException):
    """Java exits with -3."""

    exit_code = 253


class BadArguments(click.UsageError):
    exit_code = 255


class JavaCommand(OneLineErrors):
    """A command whose exit code over bad arguments is Java's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadArguments(error.format_message(), error.ctx) from error


def log_to_stderr() -> None:
    """Log to stderr, for commands without settings that say where log lines go."""
    terminal = logging.StreamHandler()
    terminal.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[terminal])


def logging_flags(function: F) -> F:
    """Add --log-dir and --log-format, which override the settings logDir and logFormat."""
    function = click.option(
        "--log-dir", type=Path, help="Directory of log files, which are rotated; without it stderr is used."
    )(function)
    kinds = click.Choice([kind.value for kind in LogFormat])
    return click.option("--log-format", type=kinds, help="Write log lines as text or as JSON.")(function)


def read_properties(file: Path) -> dict[str, str]:
    try:
        return properties.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"configuration file {file} cannot be read: {why}") from error


def exit_error(error: BaseException, message: str) -> click.ClickException:
    """Return the exception, with Java's exit code, for a server that could not start or that failed later."""
    if isinstance(error, ServiceFailed):
        return click.ClickException(message)
    # An error over a port or folder that cannot be used has an OSError as its cause; a wrong setting has no cause.
    is_setting = isinstance(error, ConfigurationError) and error.__cause__ is None
    return BadConfiguration(message) if is_setting else NotStarted(message)


def describe_failure(error: BaseException) -> str:
    """Return why a server did not start, and the flag that helps."""
    cause = error.__cause__
    if isinstance(error, OSError):
        return reason(error)
    text = str(error)
    if " could not be opened: " in text and isinstance(cause, OSError) and "; give " not in text:
        return f"{text}; give a writable directory with --store (storePathRootDir)"
    if "cannot listen on" not in text or "; give " in text:
        return text
    if isinstance(cause, socket.gaierror) or (isinstance(cause, OSError) and cause.errno == errno.EADDRNOTAVAIL):
        return f"{text}; give an address of this machine with --bind, or 0.0.0.0 for all of them"
    flag = "--metrics-port" if text.startswith("metrics") else "--port"
    return f"{text}; give another port with {flag} (0 takes a free one), or stop the process that listens there"


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT (Ctrl-C) or a closed terminal sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    # A closed terminal sends SIGHUP; nohup has it ignored, which must stay so.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    return stop


def stop_on_stdin_eof(stop: asyncio.Event) -> None:
    """Set `stop` at the end of standard input: a pipe ends when the parent process that holds it exits."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, read)


async def serve(server: Supervisor, stop: asyncio.Event, on_ready: Callable[[], None]) -> bool:
    """Run a server until `stop` is set, and call `on_ready` when it has started.

    Return whether it had started when it was stopped. Raise ServiceFailed if one of its services failed.
    """
    opening = asyncio.create_task(server.open())
    await wait_until_stopped(stop, opening)
    if opening.cancelled():
        return False
    try:
        on_ready()
        await wait_until_stopped(stop, server.wait())
    finally:
        await server.close()
    return True


async def wait_until_stopped(stop: asyncio.Event, other: Awaitable[object]) -> None:
    """Wait until `stop` is set, and then cancel `other`, or until `other` is done; raise what `other` raised."""
    stopping = asyncio.create_task(stop.wait())
    awaited = asyncio.ensure_future(other)
    await asyncio.wait({stopping, awaited}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    awaited.cancel()
    await asyncio.wait({stopping, awaited})
    if not awaited.cancelled():
        awaited.result()
