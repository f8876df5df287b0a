"""Whether clients can reach a broker at the address that they are told."""

import errno
import ipaddress
import logging
import socket

from kerolox.broker.configuration import Settings
from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)


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
        is_here = _is_of_this_machine(bound)
    except ValueError:
        is_open = bound != "localhost"
        is_here = _is_known(bound)
    if not is_here:
        raise ConfigurationError(
            f"bindAddress={bound} is no address of this machine: set it to one that is, or to 0.0.0.0 for all of them"
        )
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


def _is_known(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, ValueError):
        return False


def _is_of_this_machine(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trying:
        try:
            trying.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True
