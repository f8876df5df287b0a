"""Fetches the NameServer addresses from an HTTP server, as the text `host:port;host:port` (TopAddressing)."""

import http.client
import logging
import ssl
from typing import Final
from urllib.parse import urlsplit

from kerolox.client.session.name_servers import NameServers
from kerolox.errors import ConfigurationError, ConnectFailed, KeroloxError
from kerolox.remoting.address import parse_addresses
from kerolox.runtime.threads import in_thread

log = logging.getLogger(__name__)

# The interval of Java's clients.
REFRESH_SECONDS: Final = 120.0
_SIZE_MAX = 64 * 1024


async def fetch_addresses(url: str, timeout_seconds: float) -> list[str]:
    """Return the addresses; raise ConnectFailed if the list cannot be fetched, is malformed or empty."""
    text = await in_thread(_get, url, timeout_seconds)
    try:
        addresses = parse_addresses(text)
    except ConfigurationError as error:
        raise ConnectFailed(f"{url} did not return a list of NameServers: {error}") from error
    if not addresses:
        raise ConnectFailed(f"{url} returned an empty list of NameServers")
    return addresses


async def refresh(name_servers: NameServers, url: str, timeout_seconds: float) -> None:
    """Replace the addresses by the current list; keep the old ones if it cannot be fetched."""
    try:
        name_servers.replace(await fetch_addresses(url, timeout_seconds))
    except KeroloxError as error:
        log.warning("keeping the known NameServers, because the list was not refreshed: %s", error)


def check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"namesrv_url {url!r} is not a valid URL: expected http://host:port/path")


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
        with connection.getresponse() as response:
            text = response.read(_SIZE_MAX).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectFailed(f"cannot fetch the list of NameServers from {url}: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ConnectFailed(f"cannot fetch the list of NameServers from {url}: status {response.status}")
    return text
