"""`kerolox broker` and `mqbroker`: run a broker until told to stop."""

import errno
import ipaddress
import logging
import socket
from pathlib import Path

import click

from kerolox.broker import Broker, Settings
from kerolox.cli.servers import (
    BadConfiguration,
    NotStarted,
    OriginalCommand,
    log_to_stderr,
    on_signals,
    read_properties,
    started,
    until_told,
)
from kerolox.errors import ConfigurationError
from kerolox.runtime import properties, server_loop
from kerolox.runtime.memory import settle
from kerolox.store.errors import StoreError

log = logging.getLogger(__name__)

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
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--store", "directory", type=Path, help="Directory of the store.")
def broker(
    config_file: Path | None,
    namesrv: str | None,
    print_config: bool,
    print_important: bool,
    bind: str | None,
    port: int | None,
    directory: Path | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    log_to_stderr()
    try:
        settings = _settings(config_file)
        given = {"namesrvAddr": namesrv, "bindAddress": bind, "listenPort": port, "storePathRootDir": directory}
        settings.update({key: str(value) for key, value in given.items() if value is not None})
        if not (print_config or print_important):
            check_advertised(settings)
    except ConfigurationError as error:
        raise BadConfiguration(str(error)) from error
    if print_config or print_important:
        shown = settings.to_properties()
        if print_important:
            shown = {key: shown[key] for key in _IMPORTANT if key in shown}
        click.echo(properties.format_lines(shown), nl=False)
        return
    try:
        server_loop.run(_serve(settings))
    except (ConfigurationError, StoreError, OSError) as error:
        raise NotStarted(str(error)) from error


def _settings(file: Path | None) -> Settings:
    settings = Settings()
    if file is not None:
        settings.update(read_properties(file))
        settings.broker.config_store_path = file.absolute()
    return settings


def check_advertised(settings: Settings) -> None:
    """ConfigurationError if others would be told an address at which they cannot reach this broker."""
    advertised, bound = settings.broker.broker_ip1, settings.server.bind_address
    try:
        address = ipaddress.ip_address(advertised)
    except ValueError as error:
        raise ConfigurationError(
            f"brokerIP1={advertised!r} is no IP address: set it to the one that clients reach this machine by"
        ) from error
    if address.is_unspecified:
        raise ConfigurationError(f"brokerIP1={advertised} is no address that clients could connect to")
    try:
        is_open = not ipaddress.ip_address(bound).is_loopback
    except ValueError:
        is_open = bound != "localhost"
    if is_open and address.is_loopback:
        raise ConfigurationError(
            f"bindAddress={bound} serves other machines, and brokerIP1={advertised} sends them to themselves: "
            "set brokerIP1 to the address that they reach this machine by"
        )
    if not is_open and not address.is_loopback:
        raise ConfigurationError(
            f"brokerIP1={advertised} tells clients to come from outside, and bindAddress={bound} lets nobody in: "
            "set bindAddress=0.0.0.0"
        )
    if is_open and not _is_of_this_machine(advertised):
        log.warning(
            "brokerIP1=%s is no address of this machine: unless something forwards it here, clients do not find the "
            "broker; set brokerIP1 to the address that they reach this machine by",
            advertised,
        )


def _is_of_this_machine(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trying:
        try:
            trying.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


async def _serve(settings: Settings) -> None:
    stop = on_signals()
    running = await started(Broker(settings), stop)
    if running is None:
        return
    try:
        settle()
        config = settings.broker
        known = f" and name server is {config.namesrv_addr}" if config.namesrv_addr else ""
        click.echo(f"The broker[{config.broker_name}, {running.address}] boot success. serializeType=JSON{known}")
        if settings.server.bind_address in ("127.0.0.1", "::1", "localhost"):
            click.echo("It serves this machine only; set bindAddress and brokerIP1 to serve others.")
        await until_told(stop, running.wait())
    finally:
        await running.__aexit__(None, None, None)
