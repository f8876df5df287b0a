"""Turns OS errors and undecodable arguments into one-line error messages, with foreign text in them escaped."""

import io
import os
import sys
from typing import Any

import click

from kerolox.cli.echo import echo_line
from kerolox.errors import reason
from kerolox.runtime.text.terminal import escape_lines

_SHOWN_MAX = 40


class OneLineErrors(click.Command):
    """A command that reports errors in one line and exits with 1. Click itself handles a closed pipe."""

    def main(self, *args: Any, **extra: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # Not every terminal can show the characters of every message.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **extra)
        except UnicodeEncodeError as error:
            undecodable = error.object[error.start : error.end][:_SHOWN_MAX]
            click.echo(f"Error: {undecodable!r} is not valid UTF-8", err=True)
        except OSError as error:
            echo_line(f"Error: {reason(error)}", err=True)
        except SystemExit as exit_request:
            if exit_request.code:
                _drop_unwritable_output()
            raise
        _drop_unwritable_output()
        raise SystemExit(1)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # Errors of brokers may contain names and text that other clients chose.
            error.message = escape_lines(error.message)  # type: ignore[misc]
            raise


def _drop_unwritable_output() -> None:
    """Drop buffered output that cannot be written (disk full), or Python would retry at exit and print a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
