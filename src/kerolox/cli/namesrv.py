"""`kerolox namesrv` and `mqnamesrv`: run a NameServer until told to stop."""

import asyncio
import logging
import signal
from pathlib import Path

import click

from kerolox.errors import ConfigurationError
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime import properties
from kerolox.runtime.memory import settle


class BadConfiguration(click.ClickException):
    """The original ends with -1, which a shell shows as this."""

    exit_code = 255


class NotStarted(click.ClickException):
    """The original ends with -3."""

    exit_code = 253


class BadArguments(click.UsageError):
    exit_code = 255


class OriginalCommand(click.Command):
    """A command that ends over bad arguments as the original does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadArguments(error.message, error.ctx) from error


@click.command(cls=OriginalCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("-n", "--namesrvAddr", "_namesrv", envvar="NAMESRV_ADDR", help="Accepted; a NameServer needs none.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
def namesrv(config_file: Path | None, print_config: bool, _namesrv: str, bind: str | None, port: int | None) -> None:
    """Run a NameServer until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = _configuration(config_file, bind, port)
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config:
        click.echo(properties.format_lines(config.to_properties()), nl=False)
        return
    try:
        asyncio.run(_serve(config))
    except ConfigurationError as error:
        raise NotStarted(str(error)) from error


def _configuration(file: Path | None, bind: str | None, port: int | None) -> NamesrvConfig:
    config = NamesrvConfig()
    if file is not None:
        try:
            config.update(properties.parse(file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"configuration file {file} cannot be read: {error}") from error
        config.config_store_path = file.absolute()
    if bind is not None:
        config.bind_address = bind
    if port is not None:
        config.listen_port = port
    return config


async def _serve(config: NamesrvConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with NameServer(config) as server:
        settle()
        click.echo(f"The Name Server boot success. serializeType=JSON, address {server.address}")
        if config.bind_address in ("127.0.0.1", "::1", "localhost"):
            click.echo("It serves this machine only; set bindAddress=0.0.0.0 (or --bind 0.0.0.0) to serve others.")
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(server.wait())
        done, pending = await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if failing in done:
            failing.result()
