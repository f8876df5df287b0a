"""The list of NameServers as an HTTP server has it: the text `host:port;host:port`."""

import http.client
import logging
import ssl
from typing import Final
from urllib.parse import urlsplit

from kerolox.client.name_servers import NameServers
from kerolox.errors import ConfigurationError, ConnectFailed, KeroloxError
from kerolox.remoting.address import parse_addresses
from kerolox.runtime.blocking import in_thread

log = logging.getLogger(__name__)

# As often as Java's clients.
REFRESH_SECONDS: Final = 120.0
_SIZE_MAX = 64 * 1024


async def fetched(url: str, timeout_seconds: float) -> list[str]:
    """Returns the addresses; ConnectFailed if the list cannot be had, or is none."""
    text = await in_thread(_get, url, timeout_seconds)
    try:
        addresses = parse_addresses(text)
    except ConfigurationError as error:
        raise ConnectFailed(f"{url} is no list of NameServers: {error}") from error
    if not addresses:
        raise ConnectFailed(f"{url} names no NameServer")
    return addresses


async def refresh(name_servers: NameServers, url: str, timeout_seconds: float) -> None:
    """Takes over the list as it is now; what is known stays in use if it cannot be had."""
    try:
        name_servers.replace(await fetched(url, timeout_seconds))
    except KeroloxError as error:
        log.warning("the NameServers stay as they were: %s", error)


def check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"namesrv_url {url!r} is none: expected http://host:port/path")


def _get(url: str, timeout_seconds: float) -> str:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_seconds, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_seconds)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        with connection.getresponse() as answer:
            text = answer.read(_SIZE_MAX).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectFailed(f"no list of NameServers from {url}: {error}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ConnectFailed(f"no list of NameServers from {url}: status {answer.status}")
    return text
