"""Prints text that may come from other clients, with control characters escaped.

Escaping keeps such text from driving the terminal and from forging lines of output.
"""

from typing import Any

import click
import msgspec

from kerolox.runtime.text.terminal import escape_json, escape_line


def echo_line(text: str, *, err: bool = False) -> None:
    click.echo(escape_line(text), err=err)


def echo_json(value: Any) -> None:
    """Print a value as JSON on one line."""
    click.echo(escape_json(msgspec.json.encode(value, enc_hook=str).decode()))
