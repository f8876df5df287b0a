"""How a command ends that the system has refused something."""

from typing import Any

import click

from kerolox.errors import reason


class Refusing(click.Command):
    """What the system refuses is one sentence; who closed a pipe has read enough, which click knows itself."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except OSError as error:
            click.echo(f"Error: {reason(error)}", err=True)
            raise SystemExit(1) from None
