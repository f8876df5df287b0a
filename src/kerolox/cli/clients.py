"""What commands that send, read and look have in common: how they connect, and how they end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from kerolox.cli.admin import connecting
from kerolox.cli.admin.errors import Misused, quiet, sentence
from kerolox.client.options import Options
from kerolox.errors import KeroloxError

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-n", "--namesrv", "namesrv_addr", metavar="ADDRESS", help="NameServers, several parted by ';'."),
    *(click.option(name, **settings) for name, settings in connecting.FLAGS),
)


def connecting_options(function: F) -> F:
    """Adds the flags by which a command connects; they are taken by `connected`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def connected(namesrv_addr: str | None, **flags: Any) -> Options:
    """Returns the options of clients; one sentence if they cannot be."""
    try:
        return connecting.options(namesrv_addr, **flags)
    except KeroloxError as error:
        raise click.UsageError(sentence(error)) from None


def run(work: Coroutine[Any, Any, None]) -> None:
    """Does the work; what goes wrong is told in one sentence, and Ctrl-C ends it quietly."""
    quiet()
    try:
        asyncio.run(work)
    except KeroloxError as error:
        raise click.ClickException(sentence(error)) from None
    except Misused as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
