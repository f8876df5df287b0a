"""Addresses as people write them: `host:port`, with an IPv6 host in brackets, lists parted by semicolons."""

import re
from typing import Any

from kerolox.errors import ConfigurationError

_PORT = re.compile("[0-9]{1,5}")


def format_address(address: Any) -> str:
    """Returns a socket's address as `host:port`."""
    if not isinstance(address, tuple):
        return str(address or "unknown")
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not _PORT.fullmatch(port) or int(port) > 65535 or host.startswith("[") != host.endswith("]"):
        raise ConfigurationError(f"{text!r} is no address: expected host:port, such as 127.0.0.1:9876")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(text: str) -> list[str]:
    """Returns the addresses of a list such as `10.0.0.1:9876;10.0.0.2:9876`, each checked."""
    addresses = [address.strip() for address in text.split(";") if address.strip()]
    for address in addresses:
        parse_address(address)
    return list(dict.fromkeys(addresses))
