"""`kerolox controller` and `mqcontroller`: runs a controller until it is stopped (ControllerStartup)."""

from pathlib import Path

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
from kerolox.controller import Controller, ControllerConfig
from kerolox.errors import ConfigurationError, ServiceFailed
from kerolox.runtime import event_loop
from kerolox.runtime.config import warn_of_unknown
from kerolox.runtime.gc_tuning import settle
from kerolox.runtime.logs import logging_as
from kerolox.runtime.text import properties


@click.command(cls=JavaCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--port", type=int, help="Port to listen on, if no peers are configured; 0 takes a free one.")
@click.option("--store", type=Path, help="Directory of the broker groups (controllerStorePath).")
@click.option("--metrics-port", type=int, help="Port of /metrics for Prometheus; 0 takes a free one.")
@logging_flags
def controller(
    config_file: Path | None,
    print_config: bool,
    bind: str | None,
    port: int | None,
    store: Path | None,
    metrics_port: int | None,
    log_dir: Path | None,
    log_format: str | None,
) -> None:
    """Run a controller until SIGTERM or Ctrl-C. It elects the masters of broker groups."""
    overrides = {
        "bindAddress": bind,
        "listenPort": port,
        "controllerStorePath": store,
        "logDir": log_dir,
        "logFormat": log_format,
        "metricsPromExporterPort": metrics_port,
        "metricsExporterType": None if metrics_port is None else "PROM",
    }
    try:
        config = _configuration(config_file)
        config.update({key: str(value) for key, value in overrides.items() if value is not None})
        if not print_config:
            config.validate()
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config:
        click.echo(properties.format_lines(config.to_properties()), nl=False)
        return
    try:
        with logging_as(config.log_options("controller")):
            if config_file is not None:
                warn_of_unknown(config_file, config.extra)
            event_loop.run(_serve(config))
    except (ConfigurationError, ServiceFailed, OSError) as error:
        raise exit_error(error, describe_failure(error)) from error


def _configuration(file: Path | None) -> ControllerConfig:
    config = ControllerConfig()
    if file is not None:
        config.update(read_properties(file))
        config.config_store_path = file.absolute()
    return config


async def _serve(config: ControllerConfig) -> None:
    stop = stop_on_signals()
    server = Controller(config)
    await serve(server, stop, lambda: _on_ready(server))


def _on_ready(server: Controller) -> None:
    settle()
    echo_ready(server)
    if server.metrics_listener is not None:
        click.echo(f"Metrics are at {server.metrics_listener.url}")
    if server.config.bind_address in ("127.0.0.1", "::1", "localhost"):
        click.echo(
            "It serves this machine only; set bindAddress=0.0.0.0 (or --bind 0.0.0.0) and controllerDLegerPeers to "
            "serve other machines."
        )


def echo_ready(server: Controller) -> None:
    click.echo(f"The Controller Server boot success. serializeType=JSON, address {server.address}")


def embedded_config(namesrv_properties: dict[str, str]) -> ControllerConfig:
    """Return the settings of a controller in the process of a NameServer, from the NameServer's settings.

    Both share TLS and limits. The controller's port comes from its list of peers; it has no metrics of its own, and
    changes over the wire last until the process ends, because the file is the NameServer's.
    """
    not_shared = ("listenPort", "configStorePath", "configBlackList", "metricsExporterType")
    config = ControllerConfig.from_properties(
        {key: value for key, value in namesrv_properties.items() if key not in not_shared}
    )
    config.config_store_path = None
    config.validate()
    return config
