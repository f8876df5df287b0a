"""`kerolox`: one command, with a subcommand for each thing it can be."""

import importlib

import click

import kerolox
from kerolox.cli.refusing import Refusing


class LazyGroup(Refusing, click.Group):
    """Imports a subcommand when it is asked for: a NameServer should not carry what a store needs."""

    def __init__(self, *args: object, modules: dict[str, str], **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        command: click.Command = getattr(importlib.import_module(self._modules[cmd_name]), cmd_name)
        return command


@click.group(
    cls=LazyGroup,
    modules={
        "admin": "kerolox.cli.admin.tool",
        "broker": "kerolox.cli.broker",
        "consume": "kerolox.cli.consume",
        "dashboard": "kerolox.cli.dashboard",
        "doctor": "kerolox.cli.doctor",
        "down": "kerolox.cli.down",
        "namesrv": "kerolox.cli.namesrv",
        "pipeline": "kerolox.cli.pipeline",
        "send": "kerolox.cli.send",
        "status": "kerolox.cli.down",
        "store": "kerolox.cli.store",
        "top": "kerolox.cli.top",
        "up": "kerolox.cli.up",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(kerolox.__version__, message="kerolox %(version)s")
def main() -> None:
    """Apache RocketMQ for people who work in Python."""
