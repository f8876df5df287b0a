"""What the commands that run a server have in common."""

import asyncio
import logging
import signal
from collections.abc import Awaitable
from pathlib import Path

import click

from kerolox.errors import ConfigurationError
from kerolox.runtime import properties


class BadConfiguration(click.ClickException):
    """The original ends with -1, which a shell shows as this."""

    exit_code = 255


class NotStarted(click.ClickException):
    """The original ends with -3."""

    exit_code = 253


class BadArguments(click.UsageError):
    exit_code = 255


class OriginalCommand(click.Command):
    """A command that ends over bad arguments as the original does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadArguments(error.message, error.ctx) from error


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def read_properties(file: Path) -> dict[str, str]:
    try:
        return properties.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"configuration file {file} cannot be read: {error}") from error


def on_signals() -> asyncio.Event:
    """Returns what is set by SIGTERM or Ctrl-C from now on. Before, they end the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until_told(stop: asyncio.Event, failure: Awaitable[None]) -> None:
    """Returns when `stop` is set; raises if the server fails before."""
    stopping = asyncio.create_task(stop.wait())
    failing = asyncio.ensure_future(failure)
    done, pending = await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if failing in done:
        failing.result()
