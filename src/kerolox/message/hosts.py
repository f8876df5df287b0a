"""Born host and store host of a record: 4 or 16 bytes of IP address, then the port as int32."""

import functools
import re
import socket
import struct
from typing import TypeAlias

from kerolox.errors import ConfigurationError

Host: TypeAlias = bytes

IPV4_HOST_SIZE, IPV6_HOST_SIZE = 8, 20
NO_HOST: Host = bytes(IPV4_HOST_SIZE)

_PORT = struct.Struct(">i")
_PORT_TEXT = re.compile("[0-9]{1,5}")
_MAPPED = bytes(10) + b"\xff\xff"


@functools.lru_cache(maxsize=4096)
def pack(ip: str, port: int) -> Host:
    """Return the packed address; an IPv4-mapped IPv6 address (::ffff:1.2.3.4) is packed as IPv4.

    C++ and JavaScript clients read 4-byte hosts whatever the flags are, so IPv6 is used only where it must be.
    """
    if not 0 <= port <= 0xFFFF:
        raise ConfigurationError(f"port {port}, at most 65535 allowed")
    try:
        if ":" not in ip:
            return socket.inet_pton(socket.AF_INET, ip) + _PORT.pack(port)
        # The zone of a link-local address (%eth0) has no place in a record.
        packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{ip!r} is not an IP address") from error
    return (packed[12:] if packed.startswith(_MAPPED) else packed) + _PORT.pack(port)


def parse(text: str) -> Host:
    """Return the packed form of `1.2.3.4:10911` or `[::1]:10911`; host names are not resolved."""
    ip, _, port = text.strip().rpartition(":")
    if not _PORT_TEXT.fullmatch(port) or ip.startswith("[") != ip.endswith("]") or (":" in ip) != ip.startswith("["):
        raise ConfigurationError(f"{text!r} is not an address: expected ip:port, such as 127.0.0.1:10911")
    return pack(ip.removeprefix("[").removesuffix("]"), int(port))


def to_text(host: Host) -> str:
    """Return `ip:port`, or `[ip]:port` for IPv6."""
    ip, port = unpack(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def unpack(host: Host) -> tuple[str, int]:
    """Return ip and port. The port has 32 bits, and values above 65535 in foreign records are not rejected."""
    if len(host) == IPV4_HOST_SIZE:
        return socket.inet_ntop(socket.AF_INET, host[:4]), _PORT.unpack_from(host, 4)[0]
    assert len(host) == IPV6_HOST_SIZE
    return socket.inet_ntop(socket.AF_INET6, host[:16]), _PORT.unpack_from(host, 16)[0]
