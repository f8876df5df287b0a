"""Checks that clients can reach the broker at its advertised address (brokerIP1)."""

import errno
import ipaddress
import logging
import socket

from kerolox.broker.config import Settings
from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)


def check_advertised(settings: Settings) -> None:
    """Raise ConfigurationError if clients cannot reach the broker at brokerIP1, given its bindAddress."""
    advertised, bound = settings.broker.broker_ip1, settings.server.bind_address
    try:
        address = ipaddress.ip_address(advertised)
    except ValueError as error:
        raise ConfigurationError(
            f"brokerIP1={advertised!r} is not an IP address: set it to the address at which clients reach this machine"
        ) from error
    if address.is_unspecified:
        raise ConfigurationError(f"brokerIP1={advertised} is not an address that clients can connect to")
    try:
        accepts_remote = not ipaddress.ip_address(bound).is_loopback
        is_bindable = _is_local_address(bound)
    except ValueError:
        accepts_remote = bound != "localhost"
        is_bindable = _is_resolvable(bound)
    if not is_bindable:
        raise ConfigurationError(
            f"bindAddress={bound} is not an address of this machine: set it to one, or to 0.0.0.0 for all of them"
        )
    if accepts_remote and address.is_loopback:
        raise ConfigurationError(
            f"bindAddress={bound} accepts clients on other machines, but they cannot reach brokerIP1={advertised}: "
            "set brokerIP1 to the address at which clients reach this machine"
        )
    if not accepts_remote and not address.is_loopback:
        raise ConfigurationError(
            f"clients cannot reach brokerIP1={advertised}, because bindAddress={bound} accepts only local connections: "
            "set bindAddress=0.0.0.0"
        )
    if accepts_remote and not _is_local_address(advertised):
        log.warning(
            "brokerIP1=%s is not an address of this machine: unless something forwards it here, clients cannot reach "
            "the broker; set brokerIP1 to the address at which clients reach this machine",
            advertised,
        )


def _is_resolvable(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, ValueError):
        return False


def _is_local_address(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True
