"""Shared by the commands that are clients of a cluster: connection flags, and errors as one line."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from kerolox.cli.admin import connection_options
from kerolox.cli.admin.errors import InvalidUsage, describe_error, silence_logging
from kerolox.client.options import Options
from kerolox.errors import KeroloxError

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-n",
        "--namesrv",
        "namesrv_addr",
        metavar="ADDRESS",
        help="NameServers, separated by ';'; by default NAMESRV_ADDR, or 127.0.0.1:9876.",
    ),
    *(click.option(name, **settings) for name, settings in connection_options.FLAGS),
)


def connection_flags(function: F) -> F:
    """Add the flags for connecting to a command; `to_client_options` takes their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def to_client_options(namesrv_addr: str | None, **flags: Any) -> Options:
    """Return the client options that the connection flags describe; raise UsageError if they contradict each other."""
    try:
        return connection_options.client_options(namesrv_addr, **flags)
    except KeroloxError as error:
        raise click.UsageError(describe_error(error)) from None


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run the work of a command. Errors are reported in one line; Ctrl-C ends it quietly with 130."""
    silence_logging()
    try:
        asyncio.run(work)
    except KeroloxError as error:
        raise click.ClickException(describe_error(error)) from None
    except InvalidUsage as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
