"""`kerolox namesrv` and `mqnamesrv`: run a NameServer until told to stop."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kerolox.errors import ConfigurationError
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime import properties

# Exit codes of the original's start-up, as a shell shows -1 and -3.
EXIT_BAD_ARGUMENTS = 255
EXIT_NOT_STARTED = 253


def namesrv(
    config_file: Annotated[
        Path | None, typer.Option("-c", "--configFile", help="Name server config properties file.")
    ] = None,
    print_config: Annotated[bool, typer.Option("-p", "--printConfigItem", help="Print all config items.")] = False,
    namesrv_addr: Annotated[
        str | None,
        typer.Option("-n", "--namesrvAddr", envvar="NAMESRV_ADDR", help="Accepted, not needed."),
    ] = None,
    bind: Annotated[
        str | None, typer.Option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = None,
) -> None:
    """Run a NameServer."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = _configuration(config_file, bind, port)
        if print_config:
            typer.echo(properties.format_lines(config.to_properties()), nl=False)
            return
    except ConfigurationError as error:
        _fail(str(error), EXIT_BAD_ARGUMENTS)
    try:
        asyncio.run(_serve(config))
    except ConfigurationError as error:
        _fail(str(error), EXIT_NOT_STARTED)


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
        typer.echo(f"The Name Server boot success. serializeType=JSON, address {server.address}")
        if config.bind_address in ("127.0.0.1", "::1", "localhost"):
            typer.echo("It serves this machine only; set bindAddress=0.0.0.0 (or --bind 0.0.0.0) to serve others.")
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(server.wait())
        done, pending = await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if failing in done:
            failing.result()


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def main() -> None:
    """Runs as `mqnamesrv`, with the original's flags."""
    command = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    command.command(context_settings={"help_option_names": ["-h", "--help"]})(namesrv)
    command()
