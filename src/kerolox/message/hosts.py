"""Where a message was born or stored: an address packed as a record holds it, 4 or 16 bytes of ip, then the port."""

import functools
import re
import socket
import struct
from typing import TypeAlias

from kerolox.errors import ConfigurationError

Host: TypeAlias = bytes

IPV4_HOST_SIZE, IPV6_HOST_SIZE = 8, 20
NOWHERE: Host = bytes(IPV4_HOST_SIZE)

_PORT = struct.Struct(">i")
_PORT_TEXT = re.compile("[0-9]{1,5}")
_MAPPED = bytes(10) + b"\xff\xff"


@functools.lru_cache(maxsize=4096)
def pack(ip: str, port: int) -> Host:
    """Returns the packed address; an IPv4 address that came mapped into IPv6 (::ffff:1.2.3.4) is IPv4 again.

    Clients in C++ and JavaScript read 4-byte hosts whatever the flags say, so IPv6 stays the exception.
    """
    if not 0 <= port <= 0xFFFF:
        raise ConfigurationError(f"port {port}, at most 65535 allowed")
    try:
        if ":" not in ip:
            return socket.inet_pton(socket.AF_INET, ip) + _PORT.pack(port)
        # A link-local address may name its interface, for which a record has no room.
        packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{ip!r} is no IP address") from error
    return (packed[12:] if packed.startswith(_MAPPED) else packed) + _PORT.pack(port)


def parse(text: str) -> Host:
    """Returns the packed form of `1.2.3.4:10911` or `[::1]:10911`; names are not looked up."""
    ip, _, port = text.strip().rpartition(":")
    if not _PORT_TEXT.fullmatch(port) or ip.startswith("[") != ip.endswith("]") or (":" in ip) != ip.startswith("["):
        raise ConfigurationError(f"{text!r} is no address: expected ip:port, such as 127.0.0.1:10911")
    return pack(ip.removeprefix("[").removesuffix("]"), int(port))


def to_text(host: Host) -> str:
    """Returns an address as people write it."""
    ip, port = unpack(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def unpack(host: Host) -> tuple[str, int]:
    """Returns ip and port. The port has 32 bits, and what a record from elsewhere has there is not judged."""
    if len(host) == IPV4_HOST_SIZE:
        return socket.inet_ntop(socket.AF_INET, host[:4]), _PORT.unpack_from(host, 4)[0]
    assert len(host) == IPV6_HOST_SIZE
    return socket.inet_ntop(socket.AF_INET6, host[:16]), _PORT.unpack_from(host, 16)[0]
