"""`kerolox`: one command, with a subcommand for each thing it can be."""

from typing import Annotated

import typer

import kerolox
from kerolox.cli import namesrv

app = typer.Typer(
    name="kerolox",
    help="Apache RocketMQ for people who work in Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("namesrv")(namesrv.namesrv)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"kerolox {kerolox.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Apache RocketMQ for people who work in Python."""


def main() -> None:
    app()
