"""`kerolox broker` and `mqbroker`: runs a broker until it is stopped (BrokerStartup)."""

from pathlib import Path

import click

from kerolox.broker import Broker, Settings
from kerolox.broker.registration.advertised_address import check_advertised
from kerolox.cli.server_options import (
    BadConfiguration,
    JavaCommand,
    describe_failure,
    exit_error,
    logging_flags,
    read_properties,
    serve,
    stop_on_signals,
    stop_on_stdin_eof,
)
from kerolox.errors import ConfigurationError, ServiceFailed
from kerolox.runtime import event_loop
from kerolox.runtime.config import warn_of_unknown
from kerolox.runtime.gc_tuning import settle
from kerolox.runtime.logs import logging_as
from kerolox.runtime.text import properties
from kerolox.store.errors import StoreError

# The settings that Java prints with -m.
_IMPORTANT = (
    "namesrvAddr",
    "brokerIP1",
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "bindAddress",
    "listenPort",
    "storePathRootDir",
    "storePathCommitLog",
    "flushDiskType",
    "fileReservedTime",
    "deleteWhen",
)


@click.command(cls=JavaCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-n", "--namesrvAddr", "namesrv", help="NameServers, such as 127.0.0.1:9876;127.0.0.2:9876.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("-m", "--printImportantConfig", "print_important", is_flag=True, help="Print the main settings and exit.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--advertise", help="IP address at which clients reach this broker (brokerIP1).")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--store", "directory", type=Path, help="Directory of the store.")
@click.option("--with-parent", "stops_with_parent", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--metrics-port", type=int, help="Port of /metrics for Prometheus; 0 takes a free one.")
@logging_flags
def broker(
    config_file: Path | None,
    namesrv: str | None,
    print_config: bool,
    print_important: bool,
    bind: str | None,
    advertise: str | None,
    port: int | None,
    directory: Path | None,
    stops_with_parent: bool,
    metrics_port: int | None,
    log_dir: Path | None,
    log_format: str | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    overrides = {
        "namesrvAddr": namesrv,
        "bindAddress": bind,
        "brokerIP1": advertise,
        "listenPort": port,
        "storePathRootDir": directory,
        "logDir": log_dir,
        "logFormat": log_format,
        "metricsPromExporterPort": metrics_port,
        "metricsExporterType": None if metrics_port is None else "PROM",
    }
    try:
        settings = _settings(config_file)
        settings.update({key: str(value) for key, value in overrides.items() if value is not None})
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config or print_important:
        shown = settings.to_properties()
        if print_important:
            shown = {key: shown[key] for key in _IMPORTANT if key in shown}
        click.echo(properties.format_lines(shown), nl=False)
        return
    try:
        with logging_as(settings.server.log_options("broker")):
            if config_file is not None:
                warn_of_unknown(config_file, settings.unknown)
            _check(settings)
            event_loop.run(_serve(settings, stops_with_parent=stops_with_parent))
    except (ConfigurationError, StoreError, ServiceFailed, OSError) as error:
        raise exit_error(error, describe_failure(error)) from error


def _settings(file: Path | None) -> Settings:
    settings = Settings()
    if file is not None:
        settings.update(read_properties(file))
        settings.broker.config_store_path = file.absolute()
    return settings


def _check(settings: Settings) -> None:
    try:
        check_advertised(settings)
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error


async def _serve(settings: Settings, *, stops_with_parent: bool) -> None:
    stop = stop_on_signals()
    if stops_with_parent:
        stop_on_stdin_eof(stop)
    broker = Broker(settings)
    await serve(broker, stop, lambda: _on_ready(broker))


def _on_ready(broker: Broker) -> None:
    settle()
    config = broker.settings.broker
    name_servers = f" and name server is {config.namesrv_addr}" if config.namesrv_addr else ""
    if broker.metrics_listener is not None:
        click.echo(f"Metrics are at {broker.metrics_listener.url}")
    click.echo(f"The broker[{config.broker_name}, {broker.address}] boot success. serializeType=JSON{name_servers}")
    if broker.settings.server.bind_address in ("127.0.0.1", "::1", "localhost"):
        click.echo("It serves this machine only; set bindAddress and brokerIP1 to serve other machines.")
