"""How a command ends that the system has refused something, or that was given what is no text."""

import io
import sys
from typing import Any

import click

from kerolox.errors import reason

_SHOWN_MAX = 40


class Refusing(click.Command):
    """What the system refuses is one sentence; who closed a pipe has read enough, which click knows itself."""

    def main(self, *args: Any, **extra: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # Not every terminal has the characters of every message.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **extra)
        except UnicodeEncodeError as error:
            given = error.object[error.start : error.end][:_SHOWN_MAX]
            click.echo(f"Error: {given!r} is no text in UTF-8, which it is to be", err=True)
        except OSError as error:
            click.echo(f"Error: {reason(error)}", err=True)
        raise SystemExit(1)
