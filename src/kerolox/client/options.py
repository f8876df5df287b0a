"""Options of all clients: NameServers, client id, credentials, TLS and timeouts (ClientConfig)."""

import itertools
import os
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict, Unpack

from kerolox.client.resource_names import unwrap, wrap
from kerolox.client.session.name_server_discovery import check_url
from kerolox.errors import ConfigurationError
from kerolox.remoting.address import parse_address, parse_addresses
from kerolox.remoting.tls import client_context
from kerolox.runtime.clock import Clock, SystemClock

_count = itertools.count()


def _unique_number() -> str:
    return str(time.time_ns() + next(_count))


class Shared(TypedDict, total=False):
    """The keyword arguments of every client, documented in Options."""

    namesrv_addr: str | Sequence[str]
    namesrv_url: str | None
    client_ip: str | None
    instance_name: str | None
    unit_name: str | None
    unit_mode: bool
    namespace: str | None
    vip_channel_enabled: bool
    tls: bool | ssl.SSLContext
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    connect_timeout_seconds: float
    mq_client_api_timeout_seconds: float
    poll_name_server_interval_seconds: float
    heartbeat_broker_interval_seconds: float
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class Options:
    """Clients that share one Options object share a client id and its connections.

    Clients with different Options objects have different ids, unless `instance_name` makes them equal.
    """

    # `host:port`, several separated by `;` or as a list; by default from the environment variable NAMESRV_ADDR.
    namesrv_addr: str | Sequence[str] = ""
    # Alternatively, a URL that returns these addresses. It is fetched at the start and then every two minutes.
    namesrv_url: str | None = None
    # The IP address of this machine in client ids and message ids; detected if not given.
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    unit_mode: bool = False
    namespace: str | None = None
    # Send to the VIP port of brokers, which is two below the listen port.
    vip_channel_enabled: bool = False
    # True encrypts without verifying certificates; pass an SSLContext to verify them.
    tls: bool | ssl.SSLContext = False
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    connect_timeout_seconds: float = 3.0
    # The timeout of requests other than sends and pulls.
    mq_client_api_timeout_seconds: float = 3.0
    poll_name_server_interval_seconds: float = 30.0
    heartbeat_broker_interval_seconds: float = 30.0
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)
    _token: str = field(default_factory=_unique_number, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigurationError("give both access_key and secret_key, or neither")
        if self.instance_name is not None and (not self.instance_name or "@" in self.instance_name):
            raise ConfigurationError(f"instance_name {self.instance_name!r} must not be empty or contain '@'")
        if self.namesrv_url is not None:
            check_url(self.namesrv_url)
            if self.namesrv_addr:
                raise ConfigurationError("give namesrv_addr or namesrv_url, not both")
        elif not self.name_servers:
            raise ConfigurationError(
                "no NameServer address given: set namesrv_addr, or NAMESRV_ADDR, to host:port, several separated by ';'"
            )

    @cached_property
    def name_servers(self) -> list[str]:
        """The configured addresses; empty if they come from `namesrv_url`."""
        if self.namesrv_url is not None:
            return []
        given = self.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
        return parse_addresses(given if isinstance(given, str) else ";".join(given))

    @cached_property
    def ip(self) -> str:
        return self.client_ip or local_ip()

    @property
    def client_id(self) -> str:
        """Java's format: `ip@pid#time`, or `ip@instance_name`, then `@unit_name`. It changes in a forked process."""
        instance = self.instance_name or f"{os.getpid()}#{self._token}"
        unit = f"@{self.unit_name}" if self.unit_name else ""
        return f"{self.ip}@{instance}{unit}"

    @cached_property
    def tls_context(self) -> ssl.SSLContext | None:
        return client_context() if self.tls is True else self.tls or None

    def wrap(self, name: str) -> str:
        """Return the topic or group with the namespace."""
        return wrap(self.namespace, name)

    def unwrap(self, name: str) -> str:
        return unwrap(self.namespace, name)

    def vip(self, address: str) -> str:
        """Return the address to send to: the VIP port if enabled, else the address itself."""
        if not self.vip_channel_enabled:
            return address
        host, _, _ = address.rpartition(":")
        return f"{host}:{parse_address(address)[1] - 2}"


def options_of(options: Options | None, **keywords: Unpack[Shared]) -> Options:
    """Return the Options given as an object, or built from keyword arguments."""
    if options is None:
        return Options(**keywords)
    if keywords:
        raise ConfigurationError(f"give options or {', '.join(keywords)}, not both")
    return options


def local_ip() -> str:
    """Return the IP address of this machine on its default route; loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a UDP socket sends nothing; the kernel only looks up the route.
            probe.connect(("192.0.2.1", 9))
            ip: str = probe.getsockname()[0]
        except OSError:
            ip = "127.0.0.1"
    return ip
