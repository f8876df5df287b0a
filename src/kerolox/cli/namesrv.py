"""`kerolox namesrv` and `mqnamesrv`: run a NameServer until told to stop."""

from pathlib import Path

import click

from kerolox.cli.servers import (
    BadConfiguration,
    OriginalCommand,
    ended,
    logging_options,
    on_signals,
    read_properties,
    started,
    until_told,
    with_remedy,
)
from kerolox.errors import ConfigurationError
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime import properties, server_loop
from kerolox.runtime.logs import logging_as
from kerolox.runtime.memory import settle


@click.command(cls=OriginalCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("-n", "--namesrvAddr", "_namesrv", envvar="NAMESRV_ADDR", help="Accepted; a NameServer needs none.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--metrics-port", type=int, help="Port at which Prometheus finds /metrics; 0 takes a free one.")
@logging_options
def namesrv(
    config_file: Path | None,
    print_config: bool,
    _namesrv: str,
    bind: str | None,
    port: int | None,
    metrics_port: int | None,
    log_dir: Path | None,
    log_format: str | None,
) -> None:
    """Run a NameServer until SIGTERM or Ctrl-C."""
    given = {
        "bindAddress": bind,
        "listenPort": port,
        "logDir": log_dir,
        "logFormat": log_format,
        "metricsPromExporterPort": metrics_port,
        "metricsExporterType": None if metrics_port is None else "PROM",
    }
    try:
        config = _configuration(config_file)
        config.update({key: str(value) for key, value in given.items() if value is not None})
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config:
        click.echo(properties.format_lines(config.to_properties()), nl=False)
        return
    try:
        with logging_as(config.log_options("namesrv")):
            server_loop.run(_serve(config))
    except (ConfigurationError, OSError) as error:
        raise ended(error, with_remedy(error)) from error


def _configuration(file: Path | None) -> NamesrvConfig:
    config = NamesrvConfig()
    if file is not None:
        config.update(read_properties(file))
        config.config_store_path = file.absolute()
    return config


async def _serve(config: NamesrvConfig) -> None:
    stop = on_signals()
    server = await started(NameServer(config), stop)
    if server is None:
        return
    try:
        settle()
        click.echo(f"The Name Server boot success. serializeType=JSON, address {server.address}")
        if server.metrics_listener is not None:
            click.echo(f"Metrics are at {server.metrics_listener.url}")
        if config.bind_address in ("127.0.0.1", "::1", "localhost"):
            click.echo("It serves this machine only; set bindAddress=0.0.0.0 (or --bind 0.0.0.0) to serve others.")
        await until_told(stop, server.wait())
    finally:
        await server.__aexit__(None, None, None)
