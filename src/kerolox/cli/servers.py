"""What the commands that run a server have in common."""

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import click

from kerolox.cli.refusing import Refusing
from kerolox.errors import ConfigurationError, reason
from kerolox.runtime import properties
from kerolox.runtime.logs import LogFormat, TextFormatter

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class BadConfiguration(click.ClickException):
    """The original ends with -1, which a shell shows as this."""

    exit_code = 255


class NotStarted(click.ClickException):
    """The original ends with -3."""

    exit_code = 253


class BadArguments(click.UsageError):
    exit_code = 255


class OriginalCommand(Refusing):
    """A command that ends over bad arguments as the original does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadArguments(error.format_message(), error.ctx) from error


def log_to_stderr() -> None:
    """For commands that run something, and have no settings of where log lines go."""
    terminal = logging.StreamHandler()
    terminal.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[terminal])


def logging_options(function: F) -> F:
    """Adds the flags that say where log lines go; each stands for the key that is their name in camelCase."""
    function = click.option("--log-dir", type=Path, help="Directory of log files, which turn over; else stderr.")(
        function
    )
    kinds = click.Choice([kind.value for kind in LogFormat])
    return click.option("--log-format", type=kinds, help="Log lines for people, or JSON for machines.")(function)


def read_properties(file: Path) -> dict[str, str]:
    try:
        return properties.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"configuration file {file} cannot be read: {why}") from error


def ended(error: BaseException, told: str) -> click.ClickException:
    """Returns what a command ends with that could not start a server: over a setting, or over what it found here."""
    # A port that is taken, or a folder, has its cause; a setting is wrong by itself.
    is_setting = isinstance(error, ConfigurationError) and error.__cause__ is None
    return BadConfiguration(told) if is_setting else NotStarted(told)


def with_remedy(error: BaseException) -> str:
    """Returns why a server did not start, and by which flag that is mended."""
    cause = error.__cause__
    if isinstance(error, OSError):
        return reason(error)
    told = str(error)
    if " could not be opened: " in told and isinstance(cause, OSError) and "; give " not in told:
        return f"{told}; give a directory that can be written with --store (storePathRootDir)"
    if "cannot listen on" not in told or "; give " in told:
        return told
    if isinstance(cause, socket.gaierror) or (isinstance(cause, OSError) and cause.errno == errno.EADDRNOTAVAIL):
        return f"{told}; give an address of this machine with --bind, or 0.0.0.0 for all of them"
    flag = "--metrics-port" if told.startswith("metrics") else "--port"
    return f"{told}; give another with {flag} (0 takes a free one), or end what listens there"


def on_signals() -> asyncio.Event:
    """Returns what is set by SIGTERM, Ctrl-C or the end of the terminal from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    # A terminal that is closed ends what was started there, unless that was started with nohup.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    return stop


def with_parent(stop: asyncio.Event) -> None:
    """Sets `stop` when standard input ends, as it does when the process that started this one is no more."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, read)


async def started(server: AbstractAsyncContextManager[T], stop: asyncio.Event) -> T | None:
    """Returns the server once it has started, to be left by its `__aexit__`; None if told to stop before.

    What had started by then is closed again.
    """
    starting = asyncio.ensure_future(server.__aenter__())
    await until_told(stop, starting)
    return None if starting.cancelled() else starting.result()


async def until_told(stop: asyncio.Event, other: Awaitable[object]) -> None:
    """Returns when `stop` is set or `other` is done, and cancels `other` if it is not; raises what it raised."""
    stopping = asyncio.create_task(stop.wait())
    awaited = asyncio.ensure_future(other)
    await asyncio.wait({stopping, awaited}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    awaited.cancel()
    await asyncio.wait({stopping, awaited})
    if not awaited.cancelled():
        awaited.result()
