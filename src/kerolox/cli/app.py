"""`kerolox`: one command, with a subcommand for each thing it can be."""

import click

import kerolox
from kerolox.cli.namesrv import namesrv


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kerolox.__version__, message="kerolox %(version)s")
def main() -> None:
    """Apache RocketMQ for people who work in Python."""


main.add_command(namesrv)
