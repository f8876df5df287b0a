"""The client's address and scheme behind reverse proxies that the operator trusts."""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from starlette.datastructures import Headers
from starlette.types import Scope

from kerolox.errors import ConfigurationError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of `--trusted-proxy`; a single address is a network of one."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ConfigurationError(
                f"trusted proxy {text!r} is neither an IP address nor a network such as 10.0.0.0/24"
            ) from None
    return tuple(found)


def apply_forwarded(scope: Scope, trusted: Sequence[Network]) -> None:
    """Set client and scheme of a request from X-Forwarded-For and -Proto, if a trusted proxy sent it.

    Each proxy appends the address that it was called from, so the list is read from its end: the client is the last
    address that is not a trusted proxy. Anything to the left of it was written by the client itself.
    """
    hop = address_of(scope["client"][0]) if scope["client"] else None
    if hop is None or not _is_trusted(hop, trusted):
        return
    headers = Headers(scope=scope)
    if ",".join(headers.getlist("x-forwarded-proto")).rpartition(",")[2].strip().lower() == "https":
        scope["scheme"] = "https"
    for text in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
        before = address_of(_without_port(text.strip()))
        if before is None:
            break
        hop = before
        if not _is_trusted(hop, trusted):
            break
    scope["client"] = (str(hop), 0)


def address_of(text: str) -> Address | None:
    """Return an address without its scope, IPv4 if it is mapped into IPv6 (::ffff:10.0.0.1); None if it is invalid."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _without_port(text: str) -> str:
    """Some proxies append the client's port: `10.0.0.1:5678`, `[2001:db8::1]:5678`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
