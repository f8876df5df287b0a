"""`kerolox broker` and `mqbroker`: run a broker until told to stop."""

from pathlib import Path

import click

from kerolox.broker import Broker, Settings
from kerolox.broker.advertised import check_advertised
from kerolox.cli.servers import (
    BadConfiguration,
    OriginalCommand,
    ended,
    logging_options,
    on_signals,
    read_properties,
    started,
    until_told,
    with_parent,
    with_remedy,
)
from kerolox.errors import ConfigurationError
from kerolox.runtime import properties, server_loop
from kerolox.runtime.logs import logging_as
from kerolox.runtime.memory import settle
from kerolox.store.errors import StoreError

# What the original prints with -m: the settings that matter most.
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


@click.command(cls=OriginalCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--configFile", "config_file", type=Path, help="Properties file, with RocketMQ's keys.")
@click.option("-n", "--namesrvAddr", "namesrv", help="NameServers, such as 127.0.0.1:9876;127.0.0.2:9876.")
@click.option("-p", "--printConfigItem", "print_config", is_flag=True, help="Print every setting and exit.")
@click.option("-m", "--printImportantConfig", "print_important", is_flag=True, help="Print the main settings and exit.")
@click.option("--bind", help="Address to listen on; 0.0.0.0 accepts other machines.")
@click.option("--advertise", help="IP address at which clients reach this broker (brokerIP1).")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--store", "directory", type=Path, help="Directory of the store.")
@click.option("--with-parent", "ends_with_parent", is_flag=True, hidden=True, help="End when standard input does.")
@click.option("--metrics-port", type=int, help="Port at which Prometheus finds /metrics; 0 takes a free one.")
@logging_options
def broker(
    config_file: Path | None,
    namesrv: str | None,
    print_config: bool,
    print_important: bool,
    bind: str | None,
    advertise: str | None,
    port: int | None,
    directory: Path | None,
    ends_with_parent: bool,
    metrics_port: int | None,
    log_dir: Path | None,
    log_format: str | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    given = {
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
        settings.update({key: str(value) for key, value in given.items() if value is not None})
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
            _check(settings)
            server_loop.run(_serve(settings, ends_with_parent=ends_with_parent))
    except (ConfigurationError, StoreError, OSError) as error:
        raise ended(error, with_remedy(error)) from error


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


async def _serve(settings: Settings, *, ends_with_parent: bool) -> None:
    stop = on_signals()
    if ends_with_parent:
        with_parent(stop)
    running = await started(Broker(settings), stop)
    if running is None:
        return
    try:
        settle()
        config = settings.broker
        known = f" and name server is {config.namesrv_addr}" if config.namesrv_addr else ""
        if running.metrics_listener is not None:
            click.echo(f"Metrics are at {running.metrics_listener.url}")
        click.echo(f"The broker[{config.broker_name}, {running.address}] boot success. serializeType=JSON{known}")
        if settings.server.bind_address in ("127.0.0.1", "::1", "localhost"):
            click.echo("It serves this machine only; set bindAddress and brokerIP1 to serve others.")
        await until_told(stop, running.wait())
    finally:
        await running.__aexit__(None, None, None)
