"""Addresses: `host:port`, an IPv6 host in brackets, lists separated by semicolons."""

import ipaddress
import re
from typing import Any, Self

from kerolox.errors import ConfigurationError

_PORT = re.compile("[0-9]{1,5}")


def format_address(address: Any) -> str:
    """Return a socket's address as `host:port`."""
    if not isinstance(address, tuple):
        return str(address or "unknown")
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not _PORT.fullmatch(port) or int(port) > 65535 or host.startswith("[") != host.endswith("]"):
        raise ConfigurationError(f"{text!r} is not an address: expected host:port, such as 127.0.0.1:9876")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(text: str) -> list[str]:
    """Return the addresses of a list such as `10.0.0.1:9876;10.0.0.2:9876`, each checked."""
    addresses = [address.strip() for address in text.split(";") if address.strip()]
    for address in addresses:
        parse_address(address)
    return list(dict.fromkeys(addresses))


class AddressList(str):
    """IP addresses and networks, such as `10.0.0.7;192.0.2.0/24`; ValueError if one is malformed."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.networks = tuple(ipaddress.ip_network(part.strip()) for part in text.split(";") if part.strip())
        return made

    def includes(self, host: str) -> bool:
        """Whether an IP address is in the list."""
        address = ipaddress.ip_address(host)
        return any(address in network for network in self.networks)
