"""`kerolox namesrv` and `mqnamesrv`: runs a NameServer until it is stopped (NamesrvStartup)."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kerolox.cli.server_options import (
    BadConfiguration,
    JavaCommand,
    describe_failure,
    exit_error,
    logging_flags,
    read_properties,
    serve,
    stop_on_signals,
)
from kerolox.errors import ConfigurationError, ServiceFailed
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime import event_loop
from kerolox.runtime.config import warn_of_unknown
from kerolox.runtime.gc_tuning import settle
from kerolox.runtime.logs import logging_as
from kerolox.runtime.service import Supervisor
from kerolox.runtime.text import properties

if TYPE_CHECKING:
    from kerolox.controller import ControllerConfig


@click.command(cls=JavaCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("-n", "--namesrvAddr", "_namesrv", envvar="NAMESRV_ADDR", help="Accepted for compatibility and ignored.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--metrics-port", type=int, help="Port of /metrics for Prometheus; 0 takes a free one.")
@logging_flags
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
    overrides = {
        "bindAddress": bind,
        "listenPort": port,
        "logDir": log_dir,
        "logFormat": log_format,
        "metricsPromExporterPort": metrics_port,
        "metricsExporterType": None if metrics_port is None else "PROM",
    }
    try:
        config = _configuration(config_file)
        config.update({key: str(value) for key, value in overrides.items() if value is not None})
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config:
        click.echo(properties.format_lines(config.to_properties()), nl=False)
        return
    try:
        with logging_as(config.log_options("namesrv")):
            parts = _parts(config)
            if config_file is not None:
                warn_of_unknown(config_file, parts.unknown_keys)
            event_loop.run(_serve(parts))
    except (ConfigurationError, ServiceFailed, OSError) as error:
        raise exit_error(error, describe_failure(error)) from error


def _configuration(file: Path | None) -> NamesrvConfig:
    config = NamesrvConfig()
    if file is not None:
        config.update(read_properties(file))
        config.config_store_path = file.absolute()
    return config


class _Parts(NamedTuple):
    """The settings of the NameServer, and of the controller in its process, if there is one."""

    namesrv: NamesrvConfig
    controller: "ControllerConfig | None"
    unknown_keys: set[str]


def _parts(config: NamesrvConfig) -> _Parts:
    if not config.enable_controller_in_namesrv:
        return _Parts(config, None, set(config.extra))
    # Imported here: most NameServers have no controller.
    from kerolox.cli.commands.controller import embedded_config

    controller = embedded_config(config.to_properties())
    return _Parts(config, controller, set(config.extra) - set(controller.keys()))


async def _serve(parts: _Parts) -> None:
    stop = stop_on_signals()
    server = NameServer(parts.namesrv)
    if parts.controller is None:
        await serve(server, stop, lambda: _on_ready(server))
        return
    from kerolox.cli.commands.controller import echo_ready
    from kerolox.controller import Controller

    controller = Controller(parts.controller)

    def on_ready() -> None:
        _on_ready(server)
        echo_ready(controller)

    # They meet on the wire only, as they would in two processes.
    await serve(Supervisor(server, controller), stop, on_ready)


def _on_ready(server: NameServer) -> None:
    settle()
    click.echo(f"The Name Server boot success. serializeType=JSON, address {server.address}")
    if server.metrics_listener is not None:
        click.echo(f"Metrics are at {server.metrics_listener.url}")
    if server.config.bind_address in ("127.0.0.1", "::1", "localhost"):
        click.echo("It serves this machine only; set bindAddress=0.0.0.0 (or --bind 0.0.0.0) to serve other machines.")
