"""The `kerolox` command, which imports its subcommands on demand."""

import importlib

import click

import kerolox
from kerolox.cli.errors import OneLineErrors


class LazyGroup(OneLineErrors, click.Group):
    """Imports a subcommand when it is used, so that e.g. a NameServer does not load the code of the store."""

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
        "broker": "kerolox.cli.commands.broker",
        "consume": "kerolox.cli.commands.consume",
        "controller": "kerolox.cli.commands.controller",
        "dashboard": "kerolox.cli.commands.dashboard",
        "doctor": "kerolox.cli.commands.doctor",
        "down": "kerolox.cli.commands.down",
        "namesrv": "kerolox.cli.commands.namesrv",
        "pipeline": "kerolox.cli.commands.pipeline",
        "send": "kerolox.cli.commands.send",
        "status": "kerolox.cli.commands.down",
        "store": "kerolox.cli.commands.store",
        "top": "kerolox.cli.commands.top",
        "up": "kerolox.cli.commands.up",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(kerolox.__version__, message="kerolox %(version)s")
def main() -> None:
    """Apache RocketMQ for people who work in Python."""
